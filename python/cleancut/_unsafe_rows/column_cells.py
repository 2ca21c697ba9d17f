"""The cells of one column, cut out of many rows (or arrays) in Spark's UnsafeRow form."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa


class MisfitError(ValueError):
    """The bytes of a row do not fit its schema."""


@dataclass(frozen=True)
class Cells:
    """The cells of one column, in the order of their rows.

    Attributes:
        width: size of a cell in bytes: 8 in a row, the natural width of its type in an array.
        raw: all cells, concatenated.
        nulls: flags of null cells; None if there are none.
        owners: for each cell the row or array that contains it, because the cell of a value of
            variable length has the offset of that value within its owner.
    """

    width: int
    raw: bytes
    nulls: Sequence[bool] | None
    owners: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.owners)

    def numbers(self, code: str) -> "array[int] | array[float]":
        """The first bytes of each cell, as the type of an `array` type code."""
        numbers: array[int] | array[float] = array(code, self.raw)
        return numbers[:: self.width // numbers.itemsize]

    def pieces(self) -> list[bytes]:
        """The values of variable length, without the nulls.

        Raises:
            MisfitError: a value is not within its owner.
        """
        places = self.numbers("Q")
        present: Sequence[int] = range(len(places))
        if self.nulls is not None:
            present = [i for i in present if not self.nulls[i]]
        pieces = []
        for i in present:
            offset, size = divmod(int(places[i]), 1 << 32)
            piece = self.owners[i][offset : offset + size]
            if len(piece) != size:
                raise MisfitError(f"a value of {size} bytes at byte {offset} is outside its row")
            pieces.append(piece)
        return pieces

    def validity(self) -> pa.Buffer | None:
        """Arrow's validity bitmap."""
        if self.nulls is None:
            return None
        return pa.array([not null for null in self.nulls], pa.bool_()).buffers()[1]

    def spread(self, present: pa.Array) -> pa.Array:
        """Inserts nulls between the values that are not null."""
        if self.nulls is None:
            return present
        at = iter(range(len(present)))
        return present.take(
            pa.array([None if null else next(at) for null in self.nulls], pa.int64())
        )
