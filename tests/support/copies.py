"""Copies of checkpoints whose queries have ended."""

import shutil
from pathlib import Path

# A driver writes its last history file shortly after its query has ended. An incomplete file has a
# temporary name, and may be renamed while others are copied.
_BEING_WRITTEN = shutil.ignore_patterns(".cleancut-pending")


def copied(source: Path, to: Path, *, over: bool = False) -> Path:
    """Copies a checkpoint, or a directory in it.

    Args:
        source: the directory.
        to: the target.
        over: whether the target may exist; its files are replaced then.
    """
    return Path(shutil.copytree(source, to, ignore=_BEING_WRITTEN, dirs_exist_ok=over))
