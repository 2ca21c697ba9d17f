"""Copies of checkpoints whose queries have ended."""

import shutil
from pathlib import Path

# A driver notes its last epochs a moment after their query has ended. What it is still writing has
# a name of its own until it is whole, and is gone from there while others are copied.
_BEING_WRITTEN = shutil.ignore_patterns(".cleancut-pending")


def copied(source: Path, to: Path, *, over: bool = False) -> Path:
    """Copies a checkpoint, or what lies in one.

    Args:
        of: the directory.
        to: where it goes.
        over: whether that may be there; its files are replaced then.
    """
    return Path(shutil.copytree(source, to, ignore=_BEING_WRITTEN, dirs_exist_ok=over))
