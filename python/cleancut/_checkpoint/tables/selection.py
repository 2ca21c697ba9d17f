"""Which rows of a state are wanted, and what of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Selection:
    """Which rows of a family, and what of them.

    Attributes:
        limit: how many rows at most; None is all.
        where: an expression over key, value and partition, which must hold; None is all rows.
        columns: some of these three, or a field of one as `key.<name>`.
    """

    limit: int | None = None
    where: pc.Expression | None = None
    columns: Sequence[str] = ("key", "value", "partition")

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 0:
            raise ValueError(f"limit is {self.limit}, and cannot be negative")
        if not self.columns:
            raise ValueError("columns names none")


class Projection:
    """The columns that are asked for, in their order."""

    def __init__(self, schema: pa.Schema, columns: Sequence[str]) -> None:
        """Finds the columns.

        Raises:
            KeyError: one is not there, with all that are.
        """
        found = [_column(schema, name) for name in columns]
        self._places = [(part, at) for part, at, _ in found]
        self.schema = pa.schema(list(zip(columns, (of for _, _, of in found), strict=True)))

    @property
    def parts(self) -> set[str]:
        """Which of key, value and partition it takes something of."""
        return {part for part, _ in self._places}

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of a batch."""
        arrays = [
            batch.column(part) if at is None else pc.struct_field(batch.column(part), at)
            for part, at in self._places
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _column(schema: pa.Schema, name: str) -> tuple[str, int | None, pa.DataType]:
    places: dict[str, tuple[str, int | None, pa.DataType]] = {
        of.name: (of.name, None, of.type) for of in schema
    }
    for part in schema:
        if pa.types.is_struct(part.type):
            fields = (part.type.field(at) for at in range(part.type.num_fields))
            places |= {
                f"{part.name}.{of.name}": (part.name, at, of.type) for at, of in enumerate(fields)
            }
    if name not in places:
        raise KeyError(name, list(places))
    return places[name]
