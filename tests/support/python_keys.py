"""The types of keys of randomized Python queries."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests.support.python_steps import named

_STRUCT = pa.struct([("x", pa.int32()), ("y", pa.string())])


@dataclass(frozen=True)
class KeyType:
    """Columns of a key, by name: Spark's type, Arrow's type, and special values."""

    columns: Mapping[str, tuple[str, pa.DataType]]
    special: Sequence[tuple[Any, ...]]
    is_for_frames: bool = True

    def values(self, draw: random.Random, count: int) -> list[tuple[Any, ...]]:
        """Draws distinct keys, among them all special ones if there is room."""
        keys: dict[str, tuple[Any, ...]] = {named(key): key for key in self.special[:count]}
        while len(keys) < count:
            key = tuple(_value(kind, draw) for kind, _ in self.columns.values())
            keys[named(key)] = key
        chosen = list(keys.values())
        draw.shuffle(chosen)
        return chosen


def _value(kind: str, draw: random.Random) -> Any:
    n = draw.randrange(5000)
    if kind == "string":
        return f"key{n}"
    if kind == "double":
        return n / 4
    return {"x": n % 7, "y": f"y{n}"} if kind.startswith("struct") else n


_TEXT, _LONG = ("string", pa.string()), ("long", pa.int64())
_DOUBLE = ("double", pa.float64())
KEY_TYPES = {
    "string": KeyType({"k1": _TEXT}, [("",), (None,), ("ü",)]),
    "long": KeyType({"k1": _LONG}, [(0,), (-1,), (1 << 60,)]),
    "null-long": KeyType({"k1": _LONG}, [(None,), (0,), (-(1 << 63),)], is_for_frames=False),
    "double": KeyType({"k1": _DOUBLE}, [(math.nan,), (-0.0,), (0.0,), (math.inf,), (-1.5,)]),
    "struct": KeyType(
        {"k1": ("struct<x: int, y: string>", _STRUCT)},
        [({"x": 0, "y": None},), (None,), ({"x": None, "y": ""},)],
        is_for_frames=False,
    ),
    "two": KeyType({"k1": _TEXT, "k2": _LONG}, [(None, 0), ("", 0), ("", 1)]),
    "with-double": KeyType(
        {"k1": _TEXT, "k2": _DOUBLE}, [("a", math.nan), ("a", -0.0), ("a", 0.0), (None, math.nan)]
    ),
}
