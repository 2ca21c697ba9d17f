"""The files of an epoch, each sent by a task in a transaction of its own."""

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cleancut._spark.copies import copy_of
from cleancut.errors import CleancutError, error_of
from cleancut.sinks._core.database import scrubbed
from cleancut.sinks._kafka.cluster import KafkaCluster, verdict
from cleancut.sinks._kafka.producing import (
    NoTopicError,
    commit,
    give_up,
    produce,
    send,
    too_long,
)
from cleancut.sinks._kafka.records import COLUMNS, Record, unpacked

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

# What a task reports of each part.
REPORT = "part int, rows bigint"
# No file is as large; so none is read by two tasks, and none beside another one.
_NEVER_SPLIT = str(2**60)


def reading_session(spark: "SparkSession", sink: str) -> "SparkSession":
    """A session for `rows_of_files`, which reaches what that of the query does, and leaves it be.

    Raises:
        RequestError: CLEANCUT_CONNECT_UNSUPPORTED.
    """
    session = copy_of(spark, sink)
    # A task takes as much as the former says, and counts the latter for each file besides.
    session.conf.set("spark.sql.files.maxPartitionBytes", _NEVER_SPLIT)
    session.conf.set("spark.sql.files.openCostInBytes", _NEVER_SPLIT)
    return session


def rows_of_files(session: "SparkSession", paths: list[str]) -> "DataFrame":
    """The records of some files, each of which is a partition of its own, in the file's order.

    Args:
        session: a `reading_session`.
        paths: of Parquet, with some of COLUMNS.

    Returns:
        COLUMNS as far as they are there, `file`, the name of the file without its directory, and
        `whole`, whether the row was read by who reads all of the file.
    """
    from pyspark.sql import functions as F  # noqa: N812  # the name that all of PySpark uses

    read = session.read.option("__globPaths__", "false").parquet(*paths)
    part = F.col("_metadata.file_block_length") == F.col("_metadata.file_size")
    there = [F.col(name) for name in COLUMNS if name in read.columns]
    return read.select(*there, F.col("_metadata.file_name").alias("file"), part.alias("whole"))


@dataclass(frozen=True)
class PartSender:
    """Sends the parts that a task reads; a function for `mapInArrow`.

    Each part has a *slot*, its number in the epoch, and each slot a transactional id. So tasks that
    run twice, and those of a driver that was followed, fence each other, and all but one find the
    note that the slot has the epoch.

    Attributes:
        cluster: where to.
        topic: of all records; "" takes their own.
        header: that each of them gets.
        key: of the notes of this query.
        transactional_id: of this query.
        epoch: which one.
        since: where in the topic of notes those of this epoch begin.
        slots: of the files, by their names.
        seconds: for how long a lost connection is made again.
        sink: for errors.
    """

    cluster: KafkaCluster
    topic: str
    header: tuple[str, bytes] | None
    key: bytes
    transactional_id: str
    epoch: int
    since: int
    slots: Mapping[str, int]
    seconds: float
    sink: str

    def __call__(self, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Sends what is not sent yet; gives the parts, and how many rows each has."""
        import pyarrow as pa

        for file, records in itertools.groupby(_told(batches), lambda told: told[0]):
            slot = self.slots[file]
            rows = self._sent(slot, (record for _, record in records))
            yield pa.RecordBatch.from_pydict(
                {"part": pa.array([slot], pa.int32()), "rows": pa.array([rows], pa.int64())}
            )

    def _sent(self, slot: int, records: Iterator[Record]) -> int:
        try:
            return self._send(slot, records)
        except CleancutError:
            raise
        except NoTopicError:
            raise self._refusal(f"epoch {self.epoch} has a row without a topic") from None
        except Exception as failure:
            found = verdict(failure)
            if found == "foreign":
                raise
            detail = scrubbed(failure, self.cluster.secrets())
            if found == "error":
                # The cause may have what is secret.
                raise self._refusal(detail) from None
            raise error_of(
                "CLEANCUT_SINK_UNREACHABLE", sink=self.sink, seconds=self.seconds, detail=detail
            ) from None

    def _send(self, slot: int, records: Iterator[Record]) -> int:
        # In this order: what an older producer of the slot has begun is over before the note is
        # read, which may be its own.
        producer = self.cluster.producer(f"{self.transactional_id}-{slot}", self.seconds)
        key = self.key + b"/%d" % slot
        noted = self.cluster.last_note(key, self.seconds, is_settled=True, since=self.since)
        if noted is not None and int(noted) >= self.epoch:
            return sum(1 for _ in records)
        began = time.monotonic()
        try:
            producer.begin_transaction()
            rows = send(records, self.topic, self.header, producer)
            note = str(self.epoch).encode()
            produce(producer, topic=self.cluster.control, partition=0, key=key, value=note)
            self.commit(producer, slot)
        except BaseException as failure:
            give_up(producer)
            problem = too_long(failure, time.monotonic() - began, self.cluster)
            if problem is not None:
                raise self._refusal(f"part {slot} of epoch {self.epoch} {problem}") from None
            raise
        return rows

    def commit(self, producer: Any, slot: int) -> None:
        """Commits a part."""
        commit(producer, self.seconds)

    def _refusal(self, reason: str) -> Exception:
        return error_of("CLEANCUT_SINK_REFUSED", sink=self.sink, reason=reason)


def _told(batches: "Iterable[pa.RecordBatch]") -> Iterator[tuple[str, Record]]:
    """The records, and of each the name of its file."""
    for batch in batches:
        files = batch.column("file").to_pylist()
        assert all(batch.column("whole").to_pylist()), f"{files[0]} was read in pieces"
        yield from zip(files, unpacked(batch), strict=True)
