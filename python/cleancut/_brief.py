"""Values that show themselves in one line."""

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
else:
    DataclassInstance = object

_WIDTH = 96
_VALUE_WIDTH = 34


class Brief(DataclassInstance):
    """Base of dataclasses whose `repr` fits a line, however much they hold.

    Such a class says `repr=False` to its decorator.
    """

    @classmethod
    def _chart_(cls, infos: Sequence[Any]) -> str:
        """What a notebook shows above a table of such values, as HTML; here it is nothing."""
        return ""

    def __repr__(self) -> str:
        return brief(
            type(self).__name__,
            {of.name: getattr(self, of.name) for of in fields(self) if of.name[0] != "_"},
        )


def plain(info: DataclassInstance) -> dict[str, Any]:
    """The fields of a value that are for others, as plain values, for JSON."""
    private: dict[str, Any] = {of.name: None for of in fields(info) if of.name[0] == "_"}
    found = asdict(replace(info, **private))
    return {name: value for name, value in found.items() if name not in private}


def brief(name: str, values: dict[str, object]) -> str:
    """`Name(field=value, …)`, without the fields that come when the line is full."""
    line = f"{name}("
    for at, (field, value) in enumerate(values.items()):
        part = f"{', ' if at else ''}{field}={_short(value)}"
        is_last = at == len(values) - 1
        if len(line) + len(part) + (1 if is_last else 4) > _WIDTH:
            return f"{line}, …)"
        line += part
    return f"{line})"


def _short(value: object) -> str:
    if isinstance(value, list | dict | tuple) and value:
        return f"<{len(value)} of {type(value).__name__}>"
    text = f"{value:%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else repr(value)
    return text if len(text) <= _VALUE_WIDTH else f"{text[: _VALUE_WIDTH - 1]}…"
