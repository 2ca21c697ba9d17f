"""Small records in JSON that say what version of their format they have."""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from cleancut._format.fields import typed
from cleancut.errors import error_of

Record = TypeVar("Record")
_VERSION = "formatVersion"


def encoded(fields: Mapping[str, Any], version: int) -> bytes:
    """A record as it is written."""
    body = {_VERSION: version, **fields}
    return (json.dumps(body, separators=(",", ":"), ensure_ascii=False) + "\n").encode()


def decoded(
    body: bytes,
    path: str,
    parse: Callable[[dict[str, Any]], Record],
    *,
    version: int,
    damaged: str,
) -> Record:
    """Reads a record.

    Args:
        body: its bytes.
        path: where it lies, for errors.
        parse: makes it of its fields; fails with ValueError, TypeError or AttributeError.
        version: the one that is read.
        damaged: the id of the error for one that cannot be read.

    Raises:
        CorruptedError: that one.
        RequestError: CLEANCUT_FORMAT_UNKNOWN, a later release wrote it.
    """
    try:
        fields = json.loads(body)
        if not isinstance(fields, dict):
            raise ValueError("it is not a JSON object")
        found = typed(fields, _VERSION, int)
        if found == version:
            return parse(fields)
    except (ValueError, TypeError, AttributeError) as problem:
        raise error_of(damaged, path=path, detail=problem) from problem
    raise error_of("CLEANCUT_FORMAT_UNKNOWN", path=path, found=found, supported=version)
