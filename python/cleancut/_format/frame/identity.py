"""The identity in a frame's header, and the form of its rows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cleancut._format.fields import typed
from cleancut._format.layout import FrameName, Kind, StoreId

UNSAFE_ROW = "unsaferow"


@dataclass(frozen=True)
class Family:
    """A column family of a store.

    Attributes:
        family_id: the number in records; 0 is the default family.
        name: Spark's name of the family.
        key_schema: Spark's `StructType` as parsed JSON.
        value_schema: Spark's `StructType` as parsed JSON.
        is_multi_valued: whether a key has a list of values.
        is_internal: whether Spark uses it internally.
        encoding: Spark's name of the encoding of the rows.
    """

    family_id: int
    name: str
    key_schema: Mapping[str, Any]
    value_schema: Mapping[str, Any]
    is_multi_valued: bool
    is_internal: bool
    encoding: str


@dataclass(frozen=True)
class Spread:
    """The rows of its source that a referring snapshot has: those of its own partition.

    Attributes:
        partitions: number of partitions.
        source_partitions: number of partitions of the state that the source belongs to. Each row of
            the source belongs to a partition with the same remainder.
        keys: by family name, the key columns that rows are partitioned by, each as its index in the
            key, then in the nested row, and so on; other families are left out.
    """

    partitions: int
    source_partitions: int
    keys: Mapping[str, Sequence[Sequence[int]]]


@dataclass(frozen=True)
class Identity:
    """The identity of a frame.

    Attributes:
        store: the store that the frame belongs to.
        name: the name under which the frame was written.
        parent_version: the version that a changelog applies to; None in a snapshot.
        parent_id: the id of that version; None in a snapshot, and if the parent is version 0.
        families: all column families after the frame; empty if they are those of the previous
            version, or of the sources of a referring snapshot.
        spread: the rows of its source that a referring snapshot has; None if it has all.
    """

    store: StoreId
    name: FrameName
    parent_version: int | None
    parent_id: str | None
    families: tuple[Family, ...]
    spread: Spread | None = None

    def __str__(self) -> str:
        name = self.name
        return f"{self.store} version={name.version} id={name.version_id} kind={name.kind}"


def parse_identity(raw: bytes, kind: Kind, *, is_referring: bool = False) -> Identity:
    """Parses an identity.

    Args:
        raw: the JSON.
        kind: kind of the frame.
        is_referring: whether its rows are those of other frames.

    Raises:
        ValueError: it breaks a rule of docs/FORMAT.md; the text says which.
    """
    fields = json.loads(raw.decode())
    if not isinstance(fields, dict):
        raise ValueError("it is not a JSON object")
    version = typed(fields, "version", int)
    families = tuple(_family(family) for family in typed(fields, "families", list, default=[]))
    identity = Identity(
        StoreId(
            typed(fields, "operator", int),
            typed(fields, "partition", int),
            typed(fields, "store", str),
        ),
        FrameName(version, typed(fields, "id", str), kind),
        typed(fields, "parentVersion", int, default=None),
        typed(fields, "parentId", str, default=None),
        families,
        _spread(fields["spread"]) if "spread" in fields else None,
    )
    _check_parent(identity, is_referring=is_referring)
    return identity


def _check_parent(identity: Identity, *, is_referring: bool) -> None:
    parent = identity.parent_version
    if identity.name.kind == "base":
        if parent is not None or identity.parent_id is not None:
            raise ValueError("a base has no parent")
    elif parent is None or not 0 <= parent < identity.name.version:
        raise ValueError(f"parentVersion {parent} is not below version {identity.name.version}")
    elif (identity.parent_id is None) != (parent == 0):
        raise ValueError(f"parentId {identity.parent_id} does not fit parentVersion {parent}")
    if not identity.families and not parent and not is_referring:
        raise ValueError("families are missing")


def _spread(fields: Any) -> Spread:
    if not isinstance(fields, dict):
        raise ValueError("spread is not a JSON object")
    partitions, keys = typed(fields, "partitions", int), typed(fields, "keys", dict)
    if partitions < 1:
        raise ValueError(f"it is spread over {partitions} partitions")
    sources = typed(fields, "sourcePartitions", int)
    if sources < 1 or partitions % sources:
        raise ValueError(f"{partitions} is not a multiple of {sources} source partitions")
    for columns in keys.values():
        if not isinstance(columns, list) or not all(map(_is_place, columns)):
            raise ValueError("it does not say by which columns it is spread")
    return Spread(partitions, sources, keys)


def _is_place(place: object) -> bool:
    def is_index(value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0

    return isinstance(place, list) and bool(place) and all(map(is_index, place))


def _family(fields: Any) -> Family:
    if not isinstance(fields, dict):
        raise ValueError("a family is not a JSON object")
    return Family(
        typed(fields, "id", int),
        typed(fields, "name", str),
        typed(fields, "keySchema", dict),
        typed(fields, "valueSchema", dict),
        fields.get("multiValued") is True,
        fields.get("internal") is True,
        typed(fields, "encoding", str, default=UNSAFE_ROW),
    )
