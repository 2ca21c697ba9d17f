"""Dataclasses with a representation of one line."""

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
    """Base of dataclasses whose `repr` fits into a line, regardless of their content.

    Pass `repr=False` to the decorator of such a class.
    """

    @classmethod
    def _chart_(cls, infos: Sequence[Any]) -> str:
        """HTML that a notebook shows above a table of such values; empty by default."""
        return ""

    def __repr__(self) -> str:
        return brief(
            type(self).__name__,
            {item.name: getattr(self, item.name) for item in fields(self) if item.name[0] != "_"},
        )


def plain(info: DataclassInstance) -> dict[str, Any]:
    """The public fields of a value as plain values, for JSON."""
    private: dict[str, Any] = {item.name: None for item in fields(info) if item.name[0] == "_"}
    values = asdict(replace(info, **private))
    return {name: value for name, value in values.items() if name not in private}


def brief(name: str, values: dict[str, object]) -> str:
    """`Name(field=value, …)`, without the fields that do not fit into a line."""
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
