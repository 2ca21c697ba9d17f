"""Ways to damage one file of a checkpoint."""

from collections.abc import Callable
from pathlib import Path

Damage = Callable[[Path], None]


def without_checksum_file(path: Path) -> Path:
    """Drops the side file of the file system, so that our own check has to find the damage."""
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    return path


def flip(path: Path, *, position: int, bit: int = 4) -> None:
    """Flips one bit; a negative position counts from the end."""
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


def cut(path: Path, *, keep: int) -> None:
    """Leaves the first bytes; a negative number takes as many from the end."""
    path.write_bytes(path.read_bytes()[:keep])


def append(path: Path) -> None:
    """Adds a byte behind the end."""
    path.write_bytes(path.read_bytes() + b"\0")


def remove(path: Path) -> None:
    """Takes the file away."""
    path.unlink()


def replace_by(other: Path) -> Damage:
    """The content of another file under this one's name."""

    def replace(path: Path) -> None:
        path.write_bytes(other.read_bytes())

    return replace
