"""Spark's entries of the offset and commit logs, which cuts contain."""

import json
from collections.abc import Mapping
from typing import Any

from cleancut._provider import PROVIDER_KEY

_NONE = "-"
_JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
_LAST_BEFORE = "spark.sql.streaming.stateStore.cleancut.offlineLast"
_ACT = "spark.sql.streaming.stateStore.cleancut.offlineAct"
_SOURCE_OF_ACT = "spark.sql.streaming.stateStore.cleancut.offlineSource"
_UNUSED_BEFORE = "spark.sql.streaming.stateStore.cleancut.offlineUnused"


def offsets_of(entry: str) -> Mapping[str, str | None]:
    """The offset of each source: by its number from 0, or by its name if Spark knows one.

    It is None for a source that has not started.
    """
    version, *lines = entry.split("\n")
    if version == "v1":
        named = [(str(number), line) for number, line in enumerate(lines[1:])]
    else:
        named = [(line.partition(":")[0], line.partition(":")[2]) for line in lines[1:]]
    return {name: None if offset == _NONE else offset for name, offset in named}


def watermark_of(offsets: str) -> int | None:
    """The watermark of an epoch in milliseconds since 1970, from its entry of the offset log.

    None if the query has no watermark or has seen no event time yet: Spark writes 0 for both.
    """
    return _number(offsets, "batchWatermarkMs")


def next_watermark_of(commit: str) -> int | None:
    """The watermark of the next epoch in milliseconds since 1970, from the commit log's entry."""
    return _number(commit, "nextBatchWatermarkMs")


def provider_of(offsets: str) -> str | None:
    """The provider class of the query, if it has one, from the offset log's entry."""
    return _setting(offsets, PROVIDER_KEY)


def is_join_of_format_1(offsets: str) -> bool:
    """Whether joins of the query have state format 1, from the offset log's entry."""
    return _setting(offsets, _JOIN_FORMAT) == "1"


def rolled_back_from(offsets: str) -> int | None:
    """The last epoch before a rollback, from the offset log's entry; None for other epochs.

    The epoch after that one has only an offset entry, and the next epoch is the rollback.
    """
    return _marked(offsets, _LAST_BEFORE)


def source_of_operation(offsets: str) -> int | None:
    """The epoch whose result an operation has, from its offset entry; None for other epochs.

    It is -1 for an operation without earlier state.
    """
    source = _setting(offsets, _SOURCE_OF_ACT)
    if _setting(offsets, _ACT) is None or source is None:
        return None
    return int(source) if source.removeprefix("-").isdecimal() else None


def unused_before(offsets: str) -> int | None:
    """The epoch that an operation has left unused before its own, from its offset entry.

    None for other epochs, and if no epoch is unused. The unused epoch also has such an entry.
    """
    return _marked(offsets, _UNUSED_BEFORE)


def _marked(offsets: str, key: str) -> int | None:
    value = _setting(offsets, key)
    return int(value) if value is not None and value.isdecimal() else None


def _setting(offsets: str, key: str) -> str | None:
    conf = _field(offsets, "conf")
    value = conf.get(key) if isinstance(conf, dict) else None
    return value if isinstance(value, str) else None


def _number(entry: str, field: str) -> int | None:
    value = _field(entry, field)
    return value if isinstance(value, int) and value != 0 else None


def _field(entry: str, field: str) -> Any:
    """A field of the JSON in the second line; None if Spark did not write it."""
    lines = entry.split("\n")
    try:
        metadata: Any = json.loads(lines[1]) if len(lines) > 1 else None
    except ValueError:
        return None
    return metadata.get(field) if isinstance(metadata, dict) else None
