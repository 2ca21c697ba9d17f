"""Checks every byte of a checkpoint's state and every version that can be loaded."""

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
    """One cut, page, segment, frame or file of Spark's that is damaged, misplaced or missing.

    Attributes:
        object: full path of the object that it is, or lies in.
        affects: the versions that cannot be loaded because of it, ascending: of the frame's store,
            or of all stores for a cut or a missing segment, and of some for a page. None where a
            sound base spares the reader a damaged delta, where no cut needs what is damaged, for a
            damaged savepoint, and for a file of Spark's, without which the state can be read, but
            no query goes on.
        error_id: the id of the error that reading it raises.
        message: that error's whole text.
    """

    object: str
    affects: tuple[int, ...]
    error_id: str
    message: str


@dataclass(frozen=True, repr=False)
class VerifyReport(Brief):
    """What `Checkpoint.verify` found.

    Attributes:
        location: the checkpoint location as it was given.
        cuts: the number of sound cuts; a checkpoint of level 0 has none.
        savepoints: the number of sound savepoints.
        segments: the number of segments whose header, table and trailer are sound.
        unreferenced: number of segments that no cut and no savepoint references: those of an
            uncommitted epoch, or those that a crash has left.
        stores: the number of state stores.
        frames: the number of sound frames.
        bytes: their size.
        loadable: the number of versions, over all stores, that can be loaded.
        retired: the number of versions that have a frame but no longer all that they build on, and
            are older than the oldest version of their store that can be loaded. Retention leaves
            such frames; they are no damage.
        spark_files: the number of sound files that Spark has written: the id of the query, the logs
            of offsets, commits and sources, operators and schemas.
        problems: everything that is wrong: files of level 0, cuts, pages, segments, their frames,
            each in the order of stores and versions, and Spark's files.
        provider: Spark's name of the class that keeps the query's state, if it has any, where that
            is not Cleancut's by the last cut: no such state was checked. None where it is.
        pages: the number of sound pages, which cuts of format 2 lead to.
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
        """Whether all was checked, and nothing is wrong."""
        return not self.problems and self.provider is None

    def to_dict(self) -> dict[str, Any]:
        """The same as a plain dictionary, `ok` included."""
        return {**asdict(self), "ok": self.ok}

    def __str__(self) -> str:
        return "\n".join([*(problem.message for problem in self.problems), self._summary()])

    def _repr_html_(self) -> str:
        found = self.problems
        columns = [
            Column("object", [problem.object for problem in found]),
            Column("affects", [problem.affects for problem in found]),
            Column("error", [problem.error_id for problem in found]),
            Column("message", [problem.message for problem in found]),
        ]
        table = html.table(columns, "problems") if found else ""
        return html.text(self._summary()) + table

    def _summary(self) -> str:
        verdict = "sound" if not self.problems else f"{len(self.problems)} problem(s)"
        if self.provider is not None:
            verdict = f"state is kept by {self.provider} and was not checked; the rest: {verdict}"
        pinned = f"{self.savepoints} savepoints, " if self.savepoints else ""
        segments = f"{self.segments} segments ({self.unreferenced} unreferenced), "
        pinned += f"{self.pages} pages, " if self.pages else ""
        cuts = f"{self.cuts} cuts, {pinned}{segments}" if self.cuts or self.segments else ""
        sparks = f"{self.spark_files} sound files of Spark's, " if self.spark_files else ""
        return (
            f"{self.location}: {verdict}; {cuts}"
            f"{self.stores} state stores, {sparks}"
            f"{self.frames} sound frames of {self.bytes} bytes, "
            f"{self.loadable} versions loadable, {self.retired} retired"
        )


def verify(root: Root) -> VerifyReport:
    """Reads everything once; damage is collected, never raised.

    Raises:
        OSError: the file system fails.
        RequestError: the object store refuses to answer.
        RetryableError: it cannot answer.
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
    """The versions that are read from the files of level 0; later ones have cuts."""
    return sum(not epochs or version <= epochs[0] for version in check.loadable)


def _problem(finding: Finding) -> Problem:
    error = finding.error
    return Problem(finding.path, tuple(finding.affects), error.error_id, brief(error))
