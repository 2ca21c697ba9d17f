"""The selection of rows and columns of a state."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Selection:
    """The selected rows and columns of a family.

    Attributes:
        limit: maximum number of rows; None is all.
        where: a filter expression over key, value and partition; None is all rows.
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
    """The selected columns, in order."""

    def __init__(self, schema: pa.Schema, columns: Sequence[str]) -> None:
        """Resolves the columns.

        Raises:
            KeyError: a column does not exist; its arguments list all columns.
        """
        columns_found = [_column(schema, name) for name in columns]
        self._places = [(part, at) for part, at, _ in columns_found]
        self.schema = pa.schema(
            list(zip(columns, (data_type for _, _, data_type in columns_found), strict=True))
        )

    @property
    def parts(self) -> set[str]:
        """The columns among key, value and partition that are required."""
        return {part for part, _ in self._places}

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The selected columns of a batch."""
        arrays = [
            batch.column(part) if at is None else pc.struct_field(batch.column(part), at)
            for part, at in self._places
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _column(schema: pa.Schema, name: str) -> tuple[str, int | None, pa.DataType]:
    places: dict[str, tuple[str, int | None, pa.DataType]] = {
        column.name: (column.name, None, column.type) for column in schema
    }
    for part in schema:
        if pa.types.is_struct(part.type):
            fields = (part.type.field(at) for at in range(part.type.num_fields))
            places |= {
                f"{part.name}.{column.name}": (part.name, at, column.type)
                for at, column in enumerate(fields)
            }
    if name not in places:
        raise KeyError(name, list(places))
    return places[name]
