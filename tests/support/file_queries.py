"""Queries over files, one per epoch, that write by `EpochFiles`."""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from cleancut.sinks import EpochFiles
from tests.support.events import write_events
from tests.support.queries import Operator
from tests.support.seeds import fixed
from tests.support.sessions import start
from tests.support.sink_places import Place, session_at

SEED = fixed(5)
EPOCHS = 3
CUTS = "spark.sql.streaming.stateStore.cleancut.cuts"
COUNTS = Operator(lambda events: events().groupBy("k").count(), "update")


class Query:
    """A query over files, one per epoch, and the location of its sink."""

    def __init__(
        self,
        spark: SparkSession,
        home: Path,
        place: Place,
        *,
        cuts: bool = False,
        epochs: int = EPOCHS,
    ) -> None:
        self.spark = session_at(spark, place)
        self.home = home
        self.place = place
        self.root = home / "query"
        self.sink = EpochFiles(place.location)
        self.settings = dict(place.settings) | ({CUTS: "true"} if cuts else {})
        write_events(home / "events", seed=SEED, files=range(epochs), rows=50)

    def run(
        self,
        sink: Callable[[DataFrame, int], None] | None = None,
        operator: Operator = COUNTS,
        settings: dict[str, str] | None = None,
    ) -> None:
        events = self.home / "events"
        query = start(
            self.spark,
            operator,
            events=events,
            root=self.root,
            sink=sink or self.sink,
            settings=self.settings | (settings or {}),
        )
        query.awaitTermination()

    def add(self, number: int) -> None:
        write_events(self.home / "events", seed=SEED, files=range(number, number + 1), rows=50)

    def delete_log_entries(self, epoch: int, *logs: str) -> None:
        """Deletes Spark's log entries of an epoch, as in the description of a manual reset."""
        for log in logs:
            for name in (f"{epoch}", f".{epoch}.crc"):
                (self.root / "checkpoint" / log / name).unlink(missing_ok=True)

    def batch(self) -> dict[int, int]:
        rows = self.spark.read.schema("k int").json(str(self.home / "events"))
        return {row["k"]: row["count"] for row in rows.groupBy("k").count().collect()}

    def last(self) -> dict[int, int]:
        """Returns the newest row of each key."""
        rows = self.sink.read(self.spark, epoch_column="e").orderBy("e").collect()
        return {row["k"]: row["count"] for row in rows}
