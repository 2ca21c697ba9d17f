"""Lists of values that show themselves as tables."""

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
# What the metadata of a field may set of its column.
_SAID = ("rank", "beside", "trend", "is_text")


class InfoList(list[Info]):
    """A list that shows itself as a table, in a notebook and when it is printed.

    Printed, the table is as wide as the terminal, and names the columns for which there is no room;
    `to_dicts` has them all. A notebook draws figures that are to be compared, without a script.
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
        of = type(self[0])
        chart = of._chart_(self) if issubclass(of, Brief) else ""
        return chart + html.table(self._columns(), of.__name__)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The same as plain dictionaries."""
        return [asdict(info) for info in self]

    def to_arrow(self) -> "pa.Table":
        """The same as a table; what a value holds is a struct or a list of them."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.to_dicts())

    def to_pandas(self) -> "pd.DataFrame":
        """The same as a data frame, for whoever has pandas."""
        return self.to_arrow().to_pandas()

    def _columns(self) -> list[tables.Column]:
        """What fields say of themselves: whether they are a `column`, and what of it they set."""
        shown = [of for of in fields(self[0]) if of.metadata.get("column", True)] if self else []
        return [self._column(of) for of in shown]

    def _column(self, of: "Field[Any]") -> tables.Column:
        show = of.metadata.get("cell", lambda value: value)
        values = [show(getattr(info, of.name)) for info in self]
        said = {name: of.metadata[name] for name in _SAID if name in of.metadata}
        return tables.Column(of.name, values, **said)
