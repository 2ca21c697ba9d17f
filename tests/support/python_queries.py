"""Randomized queries with a function in Python and state, and their input."""

import datetime
import math
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.python_functions import Conditions, Function, Received, text_of
from tests.support.python_inputs import (
    BATCH_ROWS,
    EARLY_ENDS,
    FAILURES,
    FILES,
    FIRST_MODE,
    FORM,
    KEY_TYPE,
    KILLS,
    MODES,
    MUTATES,
    NESTED,
    NEXT_MODE,
    PARTITIONS,
    RESULTS,
    SELECTIONS,
    SPACE,
    SPLITS_GROUPS,
    STATE,
    STOPS,
    TIME_MODE,
    TTL_MS,
    VARIABLES,
)
from tests.support.python_keys import KEY_TYPES
from tests.support.python_steps import Program, equal_keys, named

# Seconds in a file, the offset of the next file, and the delay of the watermark: no row is late on
# arrival, and many would be late two files later. Rows of the last file are far later.
COVERED_S, STEP_S, DELAY_S, LAST_S = 15, 6, 10, 10_000
# The number of starts with a separate mode.
_MODES = 8
_PAUSES_S = (0.001, 0.002, 0.004)
_START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class PythonQuery:
    """A query.

    Attributes:
        form: `rows`, `frames` or `groups`.
        key_type: a name in `KEY_TYPES`.
        time_mode: Spark's time mode or timeout.
        program: the steps of the function.
        ttl_ms: the time to live of all state, or None.
        partitions: number of partitions.
        batch_rows: rows of an Arrow batch.
        splits_groups: whether groups are split.
        modes: the mode of each start.
        files: the number of files.
        kills: the number of Python workers to kill.
        stops: the number of times to stop the query.
        failures: rows at which the function fails, as (file, times).
    """

    seed: int
    form: str
    key_type: str
    time_mode: str
    program: Program
    ttl_ms: int | None
    partitions: int
    batch_rows: int
    splits_groups: bool
    modes: tuple[str, ...]
    files: int
    kills: int
    stops: int
    failures: tuple[tuple[int, int], ...]
    mutates: bool
    is_nested: bool

    @classmethod
    def draw(cls, seed: int) -> "PythonQuery":
        """Returns the query of a seed."""
        draw = random.Random(f"python query {seed}")
        chosen = SPACE.selected(SELECTIONS[seed])
        form, time_mode = chosen[FORM], chosen[TIME_MODE]
        times = chosen[FAILURES]
        modes = (chosen[FIRST_MODE], chosen[NEXT_MODE])
        return cls(
            seed=seed,
            form=form,
            key_type=chosen[KEY_TYPE],
            time_mode=time_mode,
            program=Program(
                seed,
                _kinds(form, time_mode, chosen[STATE], draw),
                chosen[RESULTS],
                chosen[EARLY_ENDS],
                time_mode == "EventTime",
            ),
            ttl_ms=chosen[TTL_MS],
            partitions=chosen[PARTITIONS],
            batch_rows=chosen[BATCH_ROWS],
            splits_groups=chosen[SPLITS_GROUPS],
            modes=(*modes, *draw.choices(MODES, k=_MODES - len(modes))),
            files=chosen[FILES],
            kills=chosen[KILLS],
            stops=chosen[STOPS],
            failures=((draw.randrange(3), times),) if times else (),
            mutates=chosen[MUTATES],
            is_nested=chosen[NESTED],
        )

    def covered(self) -> dict[str, list[Any]]:
        """The values of the dimensions of `tests.support.python_inputs`."""
        chosen = SPACE.selected(SELECTIONS[self.seed])
        return {name: [value] for name, value in chosen.items()} | {
            STATE: list(self.program.kinds),
            FAILURES: [times for _, times in self.failures] or [0],
            NEXT_MODE: [self.modes[1]],
        }

    @property
    def key_columns(self) -> list[str]:
        """The names of the key columns."""
        return list(KEY_TYPES[self.key_type].columns)

    @property
    def schema(self) -> str:
        """Spark's schema of the input."""
        keys = [f"{name} {kind}" for name, (kind, _) in KEY_TYPES[self.key_type].columns.items()]
        return ", ".join(
            [*keys, "n long", "z boolean", "ts timestamp", "w string", "x double"]
            + (["arr array<int>"] if self.is_nested else [])
        )

    def __str__(self) -> str:
        program = self.program
        return (
            f"seed {self.seed}: {self.form}, key {self.key_type}, time {self.time_mode}, "
            f"state {'+'.join(program.kinds)}, TTL {self.ttl_ms}, partitions {self.partitions}, "
            f"batches of {self.batch_rows}, split {self.splits_groups}, stops {program.stops}, "
            f"mutates {self.mutates}, modes {self.modes[:3]}"
        )


def _kinds(form: str, time_mode: str, kind: str, draw: random.Random) -> tuple[str, ...]:
    """Returns kinds of state, among them the given one."""
    if form == "groups":
        return ("value",) if time_mode == "None" else ("value", "timeout")
    kinds = draw.sample(VARIABLES, draw.randint(1, len(VARIABLES)))
    if kind in VARIABLES and kind not in kinds:
        kinds[0] = kind
    has_timer = kind == "timer" or (time_mode != "None" and draw.random() < 0.8)
    return (*kinds, "timer") if has_timer else tuple(kinds)


@dataclass
class Input:
    """The input of a query.

    Attributes:
        rows: all rows of each key, in order; 0.0 and -0.0 are one key.
        ends: for each key, its number of rows after each file.
        latest: the latest time in each file in milliseconds.
        slow_key: the key with the most rows.
    """

    rows: defaultdict[str, list[Received]] = field(default_factory=lambda: defaultdict(list))
    ends: list[Counter[str]] = field(default_factory=list)
    latest: list[int] = field(default_factory=list)
    slow_key: str = ""
    _tables: list[dict[str, list[Any]]] = field(default_factory=list)

    @classmethod
    def draw(cls, query: PythonQuery) -> "Input":
        """Draws the input of a query."""
        draw = random.Random(f"input {query.seed}")
        keys = KEY_TYPES[query.key_type].values(draw, draw.choice((3, 12, 12, 40, 40, 200)))
        drawn = cls(slow_key=equal_keys(named(keys[0])))
        many = draw.choice((15, 40, 80))
        for file in range(query.files - 1):
            chosen = [keys[0]] * many
            chosen += draw.choices(keys, k=draw.choice((20, 100)))
            draw.shuffle(chosen)
            seconds = partial(_seconds, draw, file)
            drawn._add(chosen, draw, seconds, is_nested=query.is_nested)
        last = [key for key in keys if draw.random() < 0.5] or keys[:1]
        # One row of each key that Spark compares as equal.
        by_name = {equal_keys(named(key)): key for key in last}
        drawn._add(
            list(by_name.values()), draw, lambda: LAST_S, is_nested=query.is_nested, is_last=True
        )
        return drawn

    def _add(
        self,
        keys: Sequence[Any],
        draw: random.Random,
        seconds: Callable[[], float],
        *,
        is_nested: bool,
        is_last: bool = False,
    ) -> None:
        table: dict[str, list[Any]] = defaultdict(list)
        latest = 0
        for key in keys:
            name = equal_keys(named(key))
            at = int(1000 * seconds())
            word = draw.choice(("", "a", "ü", None))
            number = draw.choice((None, 0.5, math.nan, -3.0))
            listed = draw.choice((None, [], [1, 2])) if is_nested else None
            row = Received(len(self.rows[name]), _ms(at), text_of(word, number, listed), is_last)
            self.rows[name].append(row)
            latest = max(latest, row.at)
            for column, value in (
                *((f"k{i + 1}", part) for i, part in enumerate(key)),
                *(("n", row.row), ("z", is_last), ("w", word), ("x", number), ("arr", listed)),
                ("ts", _START + datetime.timedelta(milliseconds=at)),
            ):
                table[column].append(value)
        self.latest.append(latest)
        self.ends.append(Counter({name: len(rows) for name, rows in self.rows.items()}))
        self._tables.append(table)

    def write(self, query: PythonQuery, source: Path) -> None:
        """Writes the files, each of which is the input of an epoch."""
        source.mkdir(parents=True)
        types = {name: kind for name, (_, kind) in KEY_TYPES[query.key_type].columns.items()}
        types |= {"n": pa.int64(), "z": pa.bool_(), "ts": pa.timestamp("us", "UTC")}
        types |= {"w": pa.string(), "x": pa.float64()}
        types |= {"arr": pa.list_(pa.int32())} if query.is_nested else {}
        for file, columns in enumerate(self._tables):
            arrays = [pa.array(columns[name], kind) for name, kind in types.items()]
            path = source / f"{file:03}.parquet"
            pq.write_table(pa.table(arrays, names=list(types)), path)
            # Spark reads files in the order of their modification times.
            os.utime(path, (file, file))

    def failures(self, query: PythonQuery) -> tuple[tuple[str, int, int], ...]:
        """The rows of the slow key at which the function fails: key, row, and times."""
        failures = []
        for file, times in query.failures:
            end = self.ends[min(file, query.files - 2)][self.slow_key]
            failures.append((self.slow_key, end // 2 + file, times))
        return tuple(failures)

    def function(self, query: PythonQuery, work: Path) -> Function:
        """The function of the query, whose markers are in `work`."""
        pause = random.Random(query.seed).choice(_PAUSES_S)
        conditions = Conditions(
            work, self.slow_key, pause, self.failures(query), query.mutates, query.is_nested
        )
        return Function(query.program, conditions)


def _seconds(draw: random.Random, file: int) -> float:
    return STEP_S * file + draw.uniform(0, COVERED_S - 0.01)


def _ms(at: int) -> int:
    return int(_START.timestamp() * 1000) + at
