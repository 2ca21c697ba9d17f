"""Checks every frame of a checkpoint and every version that can be loaded."""

from dataclasses import asdict, dataclass
from typing import Any

from cleancut import display
from cleancut._root import Root
from cleancut._store import StoreReader
from cleancut._store_check import StoreCheck


@dataclass(frozen=True)
class Problem:
    """One frame that is damaged, misplaced or missing.

    Attributes:
        object: full path of the frame.
        affects: the versions of its store that cannot be loaded because of it, ascending; none
            where a sound base spares the reader a damaged delta.
        error_id: the id of the error that reading it raises.
        message: that error's whole text.
    """

    object: str
    affects: tuple[int, ...]
    error_id: str
    message: str


@dataclass(frozen=True)
class VerifyReport:
    """What `Checkpoint.verify` found.

    Attributes:
        location: the checkpoint location as it was given.
        stores: the number of state stores.
        frames: the number of sound frames.
        bytes: their size.
        loadable: the number of versions, over all stores, that can be loaded.
        retired: the number of versions that have a frame but no longer all that they build on, and
            are older than the oldest version of their store that can be loaded. Retention leaves
            such frames behind; they are no damage.
        problems: everything that is wrong, in the order of stores and versions.
    """

    location: str
    stores: int
    frames: int
    bytes: int
    loadable: int
    retired: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """The same as a plain dictionary, `ok` included."""
        return {**asdict(self), "ok": self.ok}

    def __str__(self) -> str:
        return "\n".join([*(problem.message for problem in self.problems), self._summary()])

    def _repr_html_(self) -> str:
        rows = [
            (problem.object, problem.affects, problem.error_id, problem.message)
            for problem in self.problems
        ]
        summary = display.html_text(self._summary())
        if not rows:
            return summary
        return summary + display.html_table(("object", "affects", "error", "message"), rows)

    def _summary(self) -> str:
        verdict = "sound" if self.ok else f"{len(self.problems)} problem(s)"
        return (
            f"{self.location}: {verdict}; {self.stores} state stores, {self.frames} sound frames "
            f"of {self.bytes} bytes, {self.loadable} versions loadable, {self.retired} retired"
        )


def verify(root: Root) -> VerifyReport:
    """Reads everything once; damage is collected, never raised."""
    checks = [
        StoreCheck(StoreReader(root.filesystem, listing)) for listing in root.listings().values()
    ]
    for check in checks:
        check.run()
    problems = [
        Problem(finding.path, tuple(finding.affects), finding.error.error_id, str(finding.error))
        for check in checks
        for finding in check.findings.values()
    ]
    return VerifyReport(
        location=root.location,
        stores=len(checks),
        frames=sum(check.frames for check in checks),
        bytes=sum(check.bytes for check in checks),
        loadable=sum(len(check.loadable) for check in checks),
        retired=sum(len(check.retired) for check in checks),
        problems=tuple(problems),
    )
