"""What the functions of randomized Python queries do for each row, on state or on a model of it.

A step is an operation with its argument. The steps of a row follow from the seed of the query, the
key and the number of the row, and not from the epoch or call in which the row is processed.
"""

import random
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Step = tuple[str, Any]
Value = tuple[int, str | None, list[int]]

VALUE_SCHEMA = "n long, w string, a array<long>"
# PySpark 4.3 cannot read the schema of an array in the state of `applyInPandasWithState`.
GROUP_SCHEMA = "n long, w string, a string"
OTHER_SCHEMA = "n long"
LIST_SCHEMA = "n long, w string"
MAP_KEY_SCHEMA, MAP_SCHEMA = "u string", "n long"
_WORDS = "abcdef"
_STOP_CHANCE, _RESULTLESS_CHANCE = 0.08, 0.2
# More than PySpark's page of 100.
_MANY = 130
_READS = {
    "value": ("value.get", "value.exists"),
    "other": ("other.get",),
    "list": ("list.get", "list.exists", "list.first"),
    "map": ("map.get", "map.contains", "map.items", "map.keys", "map.values", "map.exists"),
    "timer": ("timers",),
    "timeout": (),
}
_WRITES = {
    "value": ("value.update", "value.update", "value.clear"),
    "other": ("other.update", "other.update", "other.clear"),
    "list": ("list.put", "list.put", "list.append", "list.append_many", "list.clear"),
    "map": ("map.update", "map.update", "map.update_many", "map.remove", "map.clear", "map.clear"),
    "timer": ("timer.set", "timer.set", "timer.delete"),
    "timeout": ("timeout",),
}


def named(key: Sequence[Any]) -> str:
    """Returns a text that is equal for the same key in each form of the function."""
    return "|".join(_name(part) for part in key)


def _name(part: Any) -> str:
    if part is None:
        return "null"
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping):
        part = tuple(part.values())
    if isinstance(part, tuple | list):
        return f"({', '.join(map(_name, part))})"
    return repr(float(part)) if isinstance(part, float) else str(int(part))


def equal_keys(name: str) -> str:
    """Returns the name of all keys that Spark compares as equal: 0.0 and -0.0."""
    return "|".join("0.0" if part == "-0.0" else part for part in name.split("|"))


def shown(result: Any) -> str:
    """Returns a short text of the result of a step, different for different results."""
    text = repr(result)
    return text if len(text) <= 60 else f"{text[:30]}.. {len(text)} {zlib.crc32(text.encode())}"


@dataclass(frozen=True)
class Program:
    """The steps of a function.

    Attributes:
        seed: of the query.
        kinds: names of the state that the function uses.
        results: the maximum number of results of a row.
        stops: whether some calls end before all rows are read.
        has_event_time: whether times are those of rows.
    """

    seed: int
    kinds: tuple[str, ...]
    results: int
    stops: bool
    has_event_time: bool

    def opening(self, key: str, row: int) -> list[Step]:
        """The reads at the start of a call, which are the same for most keys."""
        draw = self._draw("opening", key, row)
        usual = self._draw("usual")
        source = usual if draw.random() < 0.85 else draw
        return [self._read(source, kind) for kind in self.kinds for _ in range(2)]

    def results_of(self, key: str, row: int, at: int, *, is_last: bool) -> list[list[Step]]:
        """The steps before each result of a row.

        Args:
            key: the name of the key.
            row: the number of the row.
            at: the time of the call or row in milliseconds.
            is_last: whether the key has no more rows.
        """
        draw = self._draw("results", key, row)
        count = draw.randint(1, self.results)
        if draw.random() < _RESULTLESS_CHANCE:
            count = 0
        if is_last:
            return [[self._read(draw, kind) for kind in self.kinds for _ in range(4)]]
        return [self._steps(draw, at) for _ in range(count)]

    def rest(self, key: str, row: int, at: int) -> list[Step]:
        """The steps after the results of a row."""
        return self._steps(self._draw("rest", key, row), at)

    def expired(self, key: str, at: int) -> list[Step]:
        """The steps when a timer or timeout expires."""
        draw = self._draw("expired", key, at)
        steps = [self._read(draw, kind) for kind in self.kinds]
        if "timeout" in self.kinds:
            return [*steps, ("value.clear", None)]
        writes = [self._write(draw, kind, at) for kind in self.kinds if kind != "timer"]
        return steps + writes[: draw.randrange(3)]

    def is_stop(self, key: str, row: int) -> bool:
        """Whether a call ends after this row."""
        return self.stops and self._draw("stop", key, row).random() < _STOP_CHANCE

    def _steps(self, draw: random.Random, at: int) -> list[Step]:
        steps = []
        for _ in range(draw.randrange(4)):
            kind = draw.choice(self.kinds)
            is_read = draw.random() < 0.4 and _READS[kind]
            steps.append(self._read(draw, kind) if is_read else self._write(draw, kind, at))
        return steps

    def _read(self, draw: random.Random, kind: str) -> Step:
        if not _READS[kind]:
            return "value.get", None
        return draw.choice(_READS[kind]), draw.choice(_WORDS)

    def _write(self, draw: random.Random, kind: str, at: int) -> Step:
        name, n, word = draw.choice(_WRITES[kind]), draw.randrange(1000), draw.choice(_WORDS)
        many = _MANY if draw.random() < 0.2 else draw.randint(1, 3)
        time = at + (draw.randrange(25_000) if self.has_event_time else draw.choice((1, 60, 400)))
        arguments: Mapping[str, Any] = {
            "value.update": (n, word if n % 3 else None, list(range(many))),
            "other.update": (n,),
            "list.put": [(i + n, word * (i % 3)) for i in range(many)],
            "list.append": (n, word),
            "list.append_many": [(i + n, word) for i in range(many)],
            "map.update": (word, n),
            "map.update_many": [(f"{word}{i}", i + n) for i in range(many)],
            "map.remove": word,
            "timer.set": time,
            "timer.delete": time,
            "timeout": time,
        }
        return name, arguments.get(name)

    def _draw(self, *names: object) -> random.Random:
        return random.Random(zlib.crc32(repr((self.seed, *names)).encode()))


class ModelState:
    """The state of one key.

    Attributes:
        timers: the times of timers, each with whether a row has set it.
        timeout: the time of the timeout, or None.
    """

    def __init__(self, ttl_ms: int | None) -> None:
        self.timers: dict[int, bool] = {}
        self.timeout: int | None = None
        self._ttl_ms = ttl_ms
        self._now = 0
        self._is_changed = False
        # Each with its time of expiry, or None.
        self._values: dict[str, tuple[Any, int | None]] = {}
        self._list: list[tuple[Any, int | None]] = []
        self._map: dict[str, tuple[int, int | None]] = {}

    def begin_call(self) -> None:
        """Begins a call, whose first change replaces the timeout.

        In PySpark the timeout remains if the call changes neither state nor timeout.
        """
        self._is_changed = False

    def run(self, steps: Sequence[Step], at: int, *, by_row: bool = True) -> str:
        """Runs the steps in a call at a time in milliseconds, and returns their results."""
        if self._ttl_ms is not None:
            self._expire(at)
        self._now = at
        until = None if self._ttl_ms is None else at + self._ttl_ms
        return " ".join(
            f"{name}={shown(self._run(name, argument, until, by_row))}" for name, argument in steps
        )

    def _expire(self, at: int) -> None:
        def is_alive(entry: tuple[Any, int | None]) -> bool:
            return entry[1] is None or at < entry[1]

        self._values = {name: entry for name, entry in self._values.items() if is_alive(entry)}
        self._list = [entry for entry in self._list if is_alive(entry)]
        self._map = {name: entry for name, entry in self._map.items() if is_alive(entry)}

    def _run(self, name: str, argument: Any, until: int | None, by_row: bool) -> Any:
        kind, _, method = name.partition(".")
        if name in ("value.update", "value.clear", "timeout") and not self._is_changed:
            self._is_changed, self.timeout = True, None
        if kind in ("value", "other"):
            return self._value(kind, method, argument, until)
        if kind == "list":
            return self._on_list(method, argument, until)
        if kind == "map":
            return self._on_map(method, argument, until)
        if name == "timers":
            return sorted(self.timers)
        if name == "timer.set":
            self.timers.setdefault(argument, by_row)
        elif name == "timer.delete":
            self.timers.pop(argument, None)
        elif name == "timeout":
            # Spark refuses a timeout that is not after the watermark.
            self.timeout = max(argument, self._now + 1)
        return None

    def _value(self, kind: str, method: str, argument: Any, until: int | None) -> Any:
        if method == "get":
            return self._values.get(kind, (None,))[0]
        if method == "exists":
            return kind in self._values
        if method == "update":
            self._values[kind] = argument, until
        else:
            self._values.pop(kind, None)
        return None

    def _on_list(self, method: str, argument: Any, until: int | None) -> Any:
        elements = [element for element, _ in self._list]
        if method == "get":
            return elements
        if method == "first":
            return elements[:1]
        if method == "exists":
            return bool(elements)
        if method in ("put", "clear"):
            self._list = []
        added = [argument] if method == "append" else argument or []
        self._list += [(element, until) for element in added]
        return None

    def _on_map(self, method: str, argument: Any, until: int | None) -> Any:
        if method == "get":
            return self._map.get(argument, (None,))[0]
        if method in ("items", "keys", "values"):
            entries = {name: value for name, (value, _) in self._map.items()}
            return sorted(getattr(entries, method)())
        if method == "contains":
            return argument in self._map
        if method == "exists":
            return bool(self._map)
        if method == "clear":
            self._map = {}
        elif method == "remove":
            self._map.pop(argument, None)
        else:
            added = [argument] if method == "update" else argument
            self._map |= {name: (value, until) for name, value in added}
        return None
