"""Lists of values that show themselves as tables."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, TypeVar

from cleancut._display import tables

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Info = TypeVar("Info", bound=DataclassInstance)
else:
    Info = TypeVar("Info")


class InfoList(list[Info]):
    """A list that shows itself as a table, in a notebook and when it is printed."""

    def __str__(self) -> str:
        return tables.text_table(*self._table())

    def _repr_html_(self) -> str:
        return tables.html_table(*self._table())

    def to_dicts(self) -> list[dict[str, Any]]:
        """The same as plain dictionaries."""
        return [asdict(info) for info in self]

    def _table(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        if not self:
            return (), ()
        names = [found.name for found in fields(self[0]) if found.metadata.get("column", True)]
        return names, [[getattr(info, name) for name in names] for info in self]
