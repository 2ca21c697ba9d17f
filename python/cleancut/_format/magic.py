"""The first bytes of a binary object: the magic of its kind, and the version of the format."""

from collections.abc import Callable

from cleancut.errors import CleancutError, error_of

VERSION = 1

# The version of objects of builds before release 0.1.0, in errors.
UNRELEASED = "0 (written before release 0.1.0)"


def check_magic(
    actual: tuple[bytes, int],
    magic: bytes,
    path: str,
    damaged: Callable[[str], CleancutError],
    what: str,
) -> None:
    """Checks the first bytes of an object.

    Args:
        actual: magic and version of the object.
        magic: the magic of its kind.
        path: full path of the object.
        damaged: returns the error for another magic.
        what: the kind of the object, for that error.

    Raises:
        CorruptedError: the error of `damaged`.
        RequestError: CLEANCUT_FORMAT_UNKNOWN; builds before release 0.1.0 wrote a 1 as the last
            letter of the magic.
    """
    begin, version = actual
    if begin == magic[:3] + b"1":
        raise error_of("CLEANCUT_FORMAT_UNKNOWN", path=path, found=UNRELEASED, supported=VERSION)
    if begin != magic:
        raise damaged(f"it does not begin with the magic of a {what}")
    if version != VERSION:
        raise error_of("CLEANCUT_FORMAT_UNKNOWN", path=path, found=version, supported=VERSION)
