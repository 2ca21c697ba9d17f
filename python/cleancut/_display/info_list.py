"""Lists of values that are displayed as tables."""

from dataclasses import Field, asdict, fields
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar, overload

from cleancut._brief import Brief
from cleancut._display import html, tables

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from _typeshed import DataclassInstance

    Info = TypeVar("Info", bound=DataclassInstance)
else:
    Info = TypeVar("Info")

_REPR_ROWS = 10
# The column attributes that the metadata of a field may set.
_SAID = ("rank", "drawing", "trend", "is_text")


class InfoList(list[Info]):
    """A list that is displayed as a table, in a notebook and in a terminal.

    In a terminal the table is as wide as the terminal, and lists the columns that do not fit;
    `to_dicts` returns all of them. A notebook shows charts of comparable values, without scripts.
    """

    @overload
    def __getitem__(self, at: SupportsIndex, /) -> Info: ...
    @overload
    def __getitem__(self, at: slice, /) -> "InfoList[Info]": ...
    def __getitem__(self, at: SupportsIndex | slice, /) -> "Info | InfoList[Info]":
        if isinstance(at, slice):
            return type(self)(super().__getitem__(at))
        return super().__getitem__(at)

    def __str__(self) -> str:
        return tables.fitting(self._columns())

    def __repr__(self) -> str:
        more = len(self) - _REPR_ROWS
        rest = f"\n… and {more} more" if more > 0 else ""
        return InfoList.__str__(self[:_REPR_ROWS]) + rest

    def _repr_html_(self) -> str:
        if not self:
            return html.table([])
        info_type = type(self[0])
        chart = info_type._chart_(self) if issubclass(info_type, Brief) else ""
        return chart + html.table(self._columns(), info_type.__name__)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The items as plain dictionaries."""
        return [asdict(info) for info in self]

    def to_arrow(self) -> "pa.Table":
        """The items as an Arrow table; nested values are structs or lists of structs."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.to_dicts())

    def to_pandas(self) -> "pd.DataFrame":
        """The items as a pandas DataFrame; needs pandas."""
        return self.to_arrow().to_pandas()

    def _columns(self) -> list[tables.Column]:
        """The columns, by the metadata of the fields."""
        shown = (
            [
                info_field
                for info_field in fields(self[0])
                if info_field.metadata.get("column", True)
            ]
            if self
            else []
        )
        return [self._column(info_field) for info_field in shown]

    def _column(self, info_field: "Field[Any]") -> tables.Column:
        show = info_field.metadata.get("cell", lambda value: value)
        values = [show(getattr(info, info_field.name)) for info in self]
        said = {name: info_field.metadata[name] for name in _SAID if name in info_field.metadata}
        return tables.Column(info_field.name, values, **said)
