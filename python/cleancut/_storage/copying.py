"""Copies of objects, large ones in parts: neither a request nor the memory holds them whole."""

from collections.abc import Iterator

from cleancut._storage.objects import Objects, Place

# One request to S3 or R2 writes at most 5 GiB; far less is in memory, for up to 16 copies at once.
PART_BYTES = 64 << 20
MAX_PARTS = 10_000


def copy_object(
    source: Objects,
    target: Place,
    name: str,
    size: int,
) -> int:
    """Copies an object that is written once; nothing is done if the target has it.

    Args:
        source: where the object is.
        target: where it is created if absent, under the same name.
        name: of the object.
        size: in bytes, as it was listed.

    Returns:
        How many bytes the copy has.

    Raises:
        FileNotFoundError: the source does not have it.
    """
    if size <= PART_BYTES:
        data = source.read(name)
        target.create(name, data)
        return len(data)
    target.create_in_parts(name, parts_of(source, name, size))
    return size


def parts_of(source: Objects, name: str, size: int) -> Iterator[bytes]:
    """The bytes of an object in parts, all of one size but the last.

    Raises:
        FileNotFoundError: it is not there, or is shorter than its size.
    """
    part_bytes = max(PART_BYTES, -(-size // MAX_PARTS))
    for offset in range(0, size, part_bytes):
        length = min(part_bytes, size - offset)
        data = source.read_range(name, offset, length)
        if len(data) != length:
            raise FileNotFoundError(f"{source.path(name)} ends before byte {offset + length}")
        yield data
