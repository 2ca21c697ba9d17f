"""Small JSON records with a format version."""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from cleancut._format.fields import typed
from cleancut.errors import error_of

Record = TypeVar("Record")
_VERSION = "formatVersion"


def encoded(fields: Mapping[str, Any], version: int) -> bytes:
    """A record as bytes."""
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
    """Parses a record.

    Args:
        body: the bytes of the record.
        path: full path, for errors.
        parse: creates the record from its fields; raises ValueError, TypeError or AttributeError.
        version: the supported version.
        damaged: error id for an invalid record.

    Raises:
        CorruptedError: the error of `damaged`.
        RequestError: CLEANCUT_FORMAT_UNKNOWN, a later release wrote it.
    """
    try:
        fields = json.loads(body)
        if not isinstance(fields, dict):
            raise ValueError("it is not a JSON object")
        actual = typed(fields, _VERSION, int)
        if actual == version:
            return parse(fields)
    except (ValueError, TypeError, AttributeError) as problem:
        raise error_of(damaged, path=path, detail=problem) from problem
    raise error_of("CLEANCUT_FORMAT_UNKNOWN", path=path, found=actual, supported=version)
