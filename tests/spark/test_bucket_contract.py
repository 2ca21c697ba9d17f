"""The contract of sinks whose records are in a bucket, which is restored and deleted."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cleancut.sinks import EpochFiles, TwoPhaseSink
from cleancut.testing import SinkContract
from tests.support.contracts import DIES, GONE, LOST, LOST_MEANWHILE, ROLLED_BACK, briefly
from tests.support.s3_servers import S3Server, s3proxy
from tests.support.sink_places import Bucket, credentials, session_at
from tests.support.tiers import long
from tests.support.two_phases import Directories

pytestmark = [pytest.mark.spark, long]

Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def server(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3proxy(tmp_path_factory.mktemp("s3proxy")) as started, credentials(spark):
        yield started


class InABucket(SinkContract):
    crashes = 3
    pauses = 2

    @pytest.fixture(autouse=True)
    def given_server(self, server: S3Server, spark: SparkSession) -> None:
        self._endpoint = server.endpoint
        self._session = session_at(spark, Bucket(server.endpoint, "any"))

    def session(self) -> SparkSession:
        return self._session

    def bucket(self, home: Path) -> Bucket:
        # All tests of a run share the server.
        return Bucket(self._endpoint, f"{type(self).__name__}-{home.name}")

    def save(self, home: Path) -> dict[str, bytes]:
        bucket = self.bucket(home)
        return {name: bucket.read(name) for name in bucket.sizes()}

    def restore(self, home: Path, saved: dict[str, bytes]) -> None:
        InABucket.drop(self, home)
        for name, body in saved.items():
            self.bucket(home).write(name, body)

    def drop(self, home: Path) -> None:
        for name in self.bucket(home).sizes():
            self.bucket(home).delete(name)


@briefly(DIES, ROLLED_BACK, LOST, LOST_MEANWHILE, GONE)
class TestEpochFilesInABucket(InABucket):
    def make_sink(self, home: Path) -> EpochFiles:
        return EpochFiles(self.bucket(home).location)

    def read(self, home: Path) -> Iterable[Row]:
        sink = EpochFiles(self.bucket(home).location)
        return sink.read(self.session()).collect() if sink.epochs(session=self.session()) else []


@briefly(DIES, ROLLED_BACK, LOST, LOST_MEANWHILE, GONE)
class TestTwoPhasesWithDecisionsInABucket(InABucket):
    """Restores and deletes both: the decisions, and the rows that the committer has published."""

    def make_sink(self, home: Path) -> TwoPhaseSink:
        return TwoPhaseSink(Directories(home / "rows"), decisions=self.bucket(home).location)

    def read(self, home: Path) -> Iterable[Row]:
        return Directories(home / "rows").read()

    def save(self, home: Path) -> Any:
        return super().save(home), SinkContract.save(self, home)

    def restore(self, home: Path, saved: Any) -> None:
        decisions, shown = saved
        # First, because it deletes the objects in the bucket, too.
        SinkContract.restore(self, home, shown)
        super().restore(home, decisions)

    def drop(self, home: Path) -> None:
        super().drop(home)
        SinkContract.drop(self, home)
