"""Fields of JSON objects, checked for their types."""

from typing import Any

_REQUIRED: Any = object()


def typed(fields: dict[str, Any], name: str, kind: type, default: Any = _REQUIRED) -> Any:
    """A field of the type that it must have.

    Raises:
        ValueError: it is missing and there is no default, or of another type.
    """
    value = fields.get(name, default)
    if value is _REQUIRED:
        raise ValueError(f"{name} is missing")
    # bool is a subclass of int.
    is_one = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if name in fields and not is_one:
        raise ValueError(f"{name} is not of type {kind.__name__}")
    return value
