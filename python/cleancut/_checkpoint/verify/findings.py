"""Problems that a verification finds in a checkpoint."""

from dataclasses import dataclass, field

from cleancut.errors import CleancutError, CorruptedError


@dataclass
class Finding:
    """An object, or a part of one, that is corrupted, misplaced or missing.

    Attributes:
        path: full path of the object.
        error: the error that reading it raises.
        affects: the versions that cannot be loaded because of it, ascending.
    """

    path: str
    error: CleancutError
    affects: list[int] = field(default_factory=list)

    @property
    def is_missing(self) -> bool:
        is_page_or_table = isinstance(self.error.__cause__, FileNotFoundError)
        return self.error.error_id == "CLEANCUT_FRAME_MISSING" or is_page_or_table

    def add(self, version: int) -> None:
        """Records a version that it affects."""
        if version not in self.affects:
            self.affects.append(version)
            self.affects.sort()


def finding_of(path: str, error: CleancutError) -> Finding:
    """The finding for the error of a read.

    Raises:
        CleancutError: the error itself, if it concerns the object store and not the object.
    """
    if isinstance(error, CorruptedError) or error.error_id == "CLEANCUT_FORMAT_UNKNOWN":
        return Finding(path, error)
    raise error
