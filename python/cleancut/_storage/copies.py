"""Copies objects, large ones in parts, so that no request and no memory holds a whole object."""

from collections.abc import Iterator

from cleancut._storage.objects import Objects, Place

# A request to S3 or R2 writes at most 5 GiB; memory holds far less, for up to 16 copies at once.
PART_BYTES = 64 << 20
MAX_PARTS = 10_000


def copy_object(
    source: Objects,
    target: Place,
    name: str,
    size: int,
) -> int:
    """Copies an object that is written once; does nothing if the target has it.

    Args:
        source: the objects with the original.
        target: the objects in which it is created if absent, under the same name.
        name: name of the object.
        size: size in bytes, by a listing.

    Returns:
        The number of copied bytes.

    Raises:
        FileNotFoundError: the source lacks it.
    """
    if size <= PART_BYTES:
        data = source.read(name)
        target.create(name, data)
        return len(data)
    target.create_in_parts(name, parts_of(source, name, size))
    return size


def parts_of(source: Objects, name: str, size: int) -> Iterator[bytes]:
    """The bytes of an object in parts, all of one size except for the last.

    Raises:
        FileNotFoundError: it does not exist, or is shorter than its size.
    """
    part_bytes = max(PART_BYTES, -(-size // MAX_PARTS))
    for offset in range(0, size, part_bytes):
        length = min(part_bytes, size - offset)
        data = source.read_range(name, offset, length)
        if len(data) != length:
            raise FileNotFoundError(f"{source.path(name)} ends before byte {offset + length}")
        yield data
