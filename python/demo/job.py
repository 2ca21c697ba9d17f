"""The parameters of one run of the demo: its size, its provider, and its locations."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from demo.location import BucketLocation, LocalLocation, Location

HOURLY = "hourly"
ROTATIONS = "rotations"
QUERIES = (HOURLY, ROTATIONS)

# More files than epochs, so that an epoch is made of several of them, as in a real landing zone.
_FILES_PER_TRIGGER = 8
_FILES_WANTED = 400
ALIGNED = "aligned"
MODES = (ALIGNED, "unaligned", "auto")
FILES = "files"
SINKS = (FILES, "postgres")
_ROWS_PER_FILE = (50, 20_000)


@dataclass(frozen=True)
class Job:
    """One run; the driver process reads it back from `job.json`.

    Attributes:
        root: the work directory, absolute. rows: flights to replay. provider: "cleancut", "rocksdb"
        or "hdfs". master: Spark's master. kills: the number of kills of the driver with its
        executors. executor_kills: the number of kills of one executor. seed: the seed of the
        moments of the kills. checkpoints: the location of the checkpoints of both queries,
        `s3://bucket/prefix`; None is a
            directory below `root`.
        endpoint: URL of the object store; None is AWS, or the endpoint of the environment.
        mode: the mode of cuts; except in "aligned", rows may be in flight when a driver is killed.
        sink: the target of the results: "files", or "postgres" for tables.
        s3_directory: the directory of the demo's own S3 server; None without one.
    """

    root: Path
    rows: int
    provider: str
    master: str
    kills: int
    seed: int
    executor_kills: int = 0
    checkpoints: str | None = None
    endpoint: str | None = None
    mode: str = ALIGNED
    sink: str = FILES
    s3_directory: str | None = None

    @property
    def has_tables(self) -> bool:
        """Whether the results are in tables."""
        return self.sink != FILES

    @property
    def has_rows_in_flight(self) -> bool:
        """Whether the cuts of this run may have in-flight rows."""
        return self.mode != ALIGNED

    @property
    def files_per_trigger(self) -> int:
        """Input files that one epoch reads."""
        return _FILES_PER_TRIGGER

    @property
    def rows_per_file(self) -> int:
        """Flights in each input file except the last."""
        least, most = _ROWS_PER_FILE
        return min(max(self.rows // _FILES_WANTED, least), most)

    @property
    def flight_files(self) -> int:
        """Input files with flights."""
        return -(-self.rows // self.rows_per_file)

    @property
    def closing_files(self) -> int:
        """Input files that only advance the watermark past the end.

        The watermark that one epoch reaches takes effect in the next. One file more than an epoch
        reads means that some of them are left for that next epoch, also when the driver is killed
        between the two: after a restart Spark runs no epoch without new input.
        """
        return self.files_per_trigger + 1

    @property
    def epochs(self) -> int:
        """Epochs with input that each query runs."""
        return -(-(self.flight_files + self.closing_files) // self.files_per_trigger)

    def rows_through(self, epoch: int) -> int:
        """Flights that a query has read once `epoch` is committed."""
        return min(self.rows, (epoch + 1) * self.files_per_trigger * self.rows_per_file)

    @property
    def input(self) -> Path:
        """Directory of the input files."""
        return self.root / "input"

    def checkpoint(self, query: str) -> Location:
        """Checkpoint location of a query."""
        if self.checkpoints is None:
            return LocalLocation(self.root / "checkpoint" / query)
        return BucketLocation(self.checkpoints, query, self.endpoint)

    def results(self, query: str) -> Path:
        """Directory with one `epoch=N` for each epoch of a query."""
        return self.root / "results" / query

    @property
    def scratch(self) -> Path:
        """Local files of a driver and its executors, which are deleted before each run."""
        return self.root / "scratch"

    def log(self, life: int) -> Path:
        """The output of the driver of this run."""
        return self.root / "lives" / f"{life}.log"

    def events(self, life: int) -> Path:
        """The reports of the driver of this run, one JSON object per line."""
        return self.root / "lives" / f"{life}.jsonl"

    def started(self, life: int) -> Path:
        """The empty file that the driver of this run creates after the start of its queries."""
        return self.root / "lives" / f"{life}.started"

    @property
    def file(self) -> Path:
        """The file with this job, for the driver."""
        return self.root / "job.json"

    def prepare(self) -> None:
        """Creates the directories of the run and writes `file`."""
        for directory in (self.log(1).parent, *(self.results(query) for query in QUERIES)):
            directory.mkdir(parents=True)
        self.file.write_text(json.dumps({**asdict(self), "root": str(self.root)}, indent=2) + "\n")

    @staticmethod
    def load(path: Path) -> "Job":
        """Reads the file of `prepare`."""
        fields = json.loads(path.read_text())
        return Job(**{**fields, "root": Path(fields["root"])})
