"""Verifies every byte of a checkpoint's state and every version that can be loaded."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cleancut._brief import Brief
from cleancut._checkpoint.read.history import STORES_AT_ONCE
from cleancut._checkpoint.read.root import Root
from cleancut._checkpoint.read.store_reader import StoreReader
from cleancut._checkpoint.verify.cuts import CutCheck
from cleancut._checkpoint.verify.findings import Finding
from cleancut._checkpoint.verify.spark_files import SparkFilesCheck
from cleancut._checkpoint.verify.stores import StoreCheck
from cleancut._display import html
from cleancut._display.tables import Column
from cleancut._storage.parallel import mapped
from cleancut.errors import brief


@dataclass(frozen=True, repr=False)
class Problem(Brief):
    """One corrupted, misplaced or missing cut, page, segment, frame or file of Spark.

    Attributes:
        object: full path of the object, or of the object that contains it.
        affects: the versions that cannot be loaded because of it, ascending: of the frame's store,
            or of all stores for a cut or a missing segment, and of some stores for a page. None for
            a changelog that an intact snapshot replaces, for an object that no cut references, for
            a savepoint, and for a file of Spark: without it the state can be read, but no query
            can restart.
        error_id: id of the error that reading it raises.
        message: full text of that error.
    """

    object: str
    affects: tuple[int, ...]
    error_id: str
    message: str


@dataclass(frozen=True, repr=False)
class VerifyReport(Brief):
    """The result of `Checkpoint.verify`.

    Attributes:
        location: the checkpoint location as it was given.
        cuts: number of intact cuts; 0 for a checkpoint of level 0.
        savepoints: number of intact savepoints.
        segments: number of segments whose header, table and trailer are intact.
        unreferenced: number of segments that no cut and no savepoint references: those of an
            uncommitted epoch, or those that a crash has left.
        stores: number of state stores.
        frames: number of intact frames.
        bytes: size of these frames.
        loadable: number of versions, over all stores, that can be loaded.
        retired: number of versions that have a frame but lack an earlier one, and are older than
            the oldest loadable version of their store. Retention leaves such frames; they are no
            problem.
        spark_files: number of intact files of Spark: the query id, the logs of offsets, commits and
            sources, operators and schemas.
        problems: all problems: files of level 0, cuts, pages, segments and frames, ordered by store
            and version, then files of Spark.
        provider: Spark's name of the provider class, if the last cut has one that is not
            Cleancut's: its state was not verified. Else None.
        pages: number of intact pages; cuts of format 2 reference them.
    """

    location: str
    cuts: int
    savepoints: int
    segments: int
    unreferenced: int
    stores: int
    frames: int
    bytes: int
    loadable: int
    retired: int
    spark_files: int
    problems: tuple[Problem, ...]
    provider: str | None = None
    pages: int = 0

    @property
    def ok(self) -> bool:
        """Whether everything was verified, without problems."""
        return not self.problems and self.provider is None

    def to_dict(self) -> dict[str, Any]:
        """The report as a plain dictionary, `ok` included."""
        return {**asdict(self), "ok": self.ok}

    def __str__(self) -> str:
        return "\n".join([*(problem.message for problem in self.problems), self._summary()])

    def _repr_html_(self) -> str:
        problems = self.problems
        columns = [
            Column("object", [problem.object for problem in problems]),
            Column("affects", [problem.affects for problem in problems]),
            Column("error", [problem.error_id for problem in problems]),
            Column("message", [problem.message for problem in problems]),
        ]
        table = html.table(columns, "problems") if problems else ""
        return html.text(self._summary()) + table

    def _summary(self) -> str:
        verdict = "intact" if not self.problems else f"{len(self.problems)} problem(s)"
        if self.provider is not None:
            verdict = f"state of {self.provider} was not verified; the rest:  {verdict}"
        savepoints = f"{self.savepoints} savepoints, " if self.savepoints else ""
        segments = f"{self.segments} segments ({self.unreferenced} unreferenced), "
        pages = f"{self.pages} pages, " if self.pages else ""
        cuts = (
            f"{self.cuts} cuts, {savepoints}{pages}{segments}" if self.cuts or self.segments else ""
        )
        sparks = f"{self.spark_files} intact files of Spark, " if self.spark_files else ""
        return (
            f"{self.location}: {verdict}; {cuts}"
            f"{self.stores} state stores, {sparks}"
            f"{self.frames} intact frames of {self.bytes} bytes, "
            f"{self.loadable} versions loadable, {self.retired} retired"
        )


def verify(root: Root) -> VerifyReport:
    """Reads everything once; problems are collected, never raised.

    Raises:
        OSError: the file system fails.
        RequestError: the object store refuses.
        RetryableError: the object store is unavailable.
    """
    epochs = root.epochs()
    listings = root.listings()
    checks = [StoreCheck(StoreReader(root.objects, listing)) for listing in listings.values()]
    for _ in mapped(StoreCheck.run, checks, ahead=STORES_AT_ONCE):
        pass
    of_cuts = CutCheck(root, epochs)
    of_cuts.run()
    of_spark = SparkFilesCheck(root, of_cuts.committed, of_cuts.operators)
    of_spark.run()
    findings = [finding for check in checks for finding in check.findings.values()]
    findings += [*of_cuts.findings.values(), *of_spark.findings.values()]
    return VerifyReport(
        location=root.location,
        cuts=of_cuts.cuts,
        savepoints=of_cuts.savepoints,
        segments=of_cuts.segments,
        unreferenced=of_cuts.unnamed,
        stores=len(listings.keys() | of_cuts.stores),
        frames=sum(check.frames for check in checks) + of_cuts.frames,
        bytes=sum(check.bytes for check in checks) + of_cuts.bytes,
        loadable=sum(_loadable(check, epochs) for check in checks) + of_cuts.loadable,
        retired=sum(len(check.retired) for check in checks),
        spark_files=of_spark.files,
        problems=tuple(map(_problem, findings)),
        provider=of_cuts.provider,
        pages=of_cuts.pages,
    )


def _loadable(check: StoreCheck, epochs: Sequence[int]) -> int:
    """The number of versions that are loaded from files of level 0; later ones have cuts."""
    return sum(not epochs or version <= epochs[0] for version in check.loadable)


def _problem(finding: Finding) -> Problem:
    error = finding.error
    return Problem(finding.path, tuple(finding.affects), error.error_id, brief(error))
