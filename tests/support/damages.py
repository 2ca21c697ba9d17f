"""Ways to corrupt one file of a checkpoint."""

from collections.abc import Callable
from pathlib import Path

Damage = Callable[[Path], None]


def without_checksum_file(path: Path) -> Path:
    """Deletes the file system's checksum file, so that our own check has to find the corruption."""
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    return path


def flip(path: Path, *, position: int, bit: int = 4) -> None:
    """Flips one bit; a negative position counts from the end."""
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


def cut(path: Path, *, keep: int) -> None:
    """Truncates the file to its first bytes; a negative number removes bytes from the end."""
    path.write_bytes(path.read_bytes()[:keep])


def append(path: Path) -> None:
    """Appends a byte."""
    path.write_bytes(path.read_bytes() + b"\0")


def remove(path: Path) -> None:
    """Deletes the file."""
    path.unlink()


def replace_by(other: Path) -> Damage:
    """Returns a function that replaces the content of a file by that of another one."""

    def replace(path: Path) -> None:
        path.write_bytes(other.read_bytes())

    return replace
