"""Stateful processors for `transformWithState`: every kind of state, TTL and timers at once."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

OUTPUT = "k int, what string, kept string"
STATE = "k int, v int, s string"
BRIEF_TTL_MS = 1
LASTING_TTL_MS = 3_600_000
TIMER_DELAY_MS = 15_000
FAR_TIMER_DELAY_MS = 600_000


class Ledger(StatefulProcessor):
    """Keeps sums, recent values and counts of each key, and emits them.

    In processing time each kind of state exists twice: with a TTL that ends before the
    next epoch, and with one that outlives the test. In event time, where Spark has no TTL,
    both stay. Emitted rows contain no processing time, so that two runs compare.

    Attributes:
        event_time: whether timers follow the watermark.
    """

    def __init__(self, *, event_time: bool) -> None:
        self.event_time = event_time

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._states = {
            name: (
                handle.getValueState(f"{name}Sum", "n long, v long, s string", ttl),
                handle.getListState(f"{name}Recent", "v int, s string", ttl),
                handle.getMapState(f"{name}Counts", "s string", "n long", ttl),
            )
            for name, ttl in self._ttls().items()
        }

    def handleInitialState(  # noqa: N802
        self,
        key: Any,
        initialState: Any,  # noqa: N803
        timerValues: TimerValues,  # noqa: N803
    ) -> None:
        self._take(self._initial(initialState))

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Any,
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Any]:
        before = self._kept()
        events = sorted(self._events(rows), key=repr)
        self._take([(v, s) for _, v, s in events])
        self._set_timers(max(t for t, _, _ in events), timerValues)
        yield self._emitted(key, "input", f"{before} -> {self._kept()}")

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Any]:
        expiry = expiredTimerInfo.getExpiryTimeInMs() if self.event_time else None
        kept = self._kept()
        for total, recent, counts in self._states.values():
            total.clear()
            recent.clear()
            counts.clear()
        yield self._emitted(key, "timer", f"{expiry} {kept} -> {self._kept()}")

    def _ttls(self) -> dict[str, int | None]:
        if self.event_time:
            return {"brief": None, "lasting": None}
        return {"brief": BRIEF_TTL_MS, "lasting": LASTING_TTL_MS}

    def _take(self, events: list[tuple[int, str | None]]) -> None:
        for total, recent, counts in self._states.values():
            for v, s in events:
                n, sum_of_v, _ = total.get() or (0, 0, None)
                total.update((n + 1, sum_of_v + v, s))
                self._take_recent(recent, v, s)
                self._take_count(counts, v, s)

    def _take_recent(self, recent: Any, v: int, s: str | None) -> None:
        if v % 5 == 0:
            recent.put([(v, s), (v + 1, None)])
        elif v % 5 == 1:
            recent.appendList([(v, s), (v, s)])
        elif v % 50 == 2:
            recent.clear()
        else:
            recent.appendValue((v, s))

    def _take_count(self, counts: Any, v: int, s: str | None) -> None:
        name = ((s or "")[:5],)
        if v % 11 == 0 and counts.containsKey(name):
            counts.removeKey(name)
        else:
            n = counts.getValue(name)[0] if counts.containsKey(name) else 0
            counts.updateValue(name, (n + v,))

    def _set_timers(self, latest_ms: int, timer_values: TimerValues) -> None:
        if self.event_time:
            now, delay = latest_ms, TIMER_DELAY_MS
            for timer in list(self._handle.listTimers()):
                self._handle.deleteTimer(timer)
        else:
            # Due by the next epoch, which is never in the same millisecond.
            now, delay = timer_values.getCurrentProcessingTimeInMs(), 1
        self._handle.registerTimer(now + delay)
        self._handle.registerTimer(now + FAR_TIMER_DELAY_MS)

    def _kept(self) -> dict[str, Any]:
        kept: dict[str, Any] = {
            name: (
                total.get(),
                list(recent.get()),
                sorted(counts.iterator()),
            )
            for name, (total, recent, counts) in self._states.items()
        }
        timers = sorted(self._handle.listTimers())
        return kept | {"timers": timers if self.event_time else len(timers)}

    @abstractmethod
    def _events(self, rows: Any) -> Iterable[tuple[int, int, str | None]]:
        """Returns the time in milliseconds, the value and the text of each row."""

    @abstractmethod
    def _initial(self, state: Any) -> list[tuple[int, str | None]]:
        """Returns values and texts of an initial state."""

    @abstractmethod
    def _emitted(self, key: Any, what: str, kept: str) -> Any:
        """Returns an output row in the form that Spark expects."""


class RowLedger(Ledger):
    """For `transformWithState`."""

    def _events(self, rows: Any) -> Iterable[tuple[int, int, str | None]]:
        return [(int(row.t * 1000), row.v, row.s) for row in rows]

    def _initial(self, state: Any) -> list[tuple[int, str | None]]:
        return [(state.v, state.s)]

    def _emitted(self, key: Any, what: str, kept: str) -> Any:
        return Row(k=key[0], what=what, kept=kept)


class PandasLedger(Ledger):
    """For `transformWithStateInPandas`."""

    def _events(self, rows: Any) -> Iterable[tuple[int, int, str | None]]:
        frame = pd.concat(rows)
        return zip(
            (frame["t"] * 1000).astype(int).tolist(),
            frame["v"].tolist(),
            frame["s"].where(frame["s"].notna(), None).tolist(),
            strict=True,
        )

    def _initial(self, state: Any) -> list[tuple[int, str | None]]:
        return list(zip(state["v"].tolist(), state["s"].tolist(), strict=True))

    def _emitted(self, key: Any, what: str, kept: str) -> Any:
        return pd.DataFrame({"k": [key[0]], "what": [what], "kept": [kept]})


class Grown(StatefulProcessor):
    """Counts the rows of each key; in a later release of the query it also keeps the last text.

    Attributes:
        release: 1, or 2 with the added column.
    """

    def __init__(self, release: int) -> None:
        self.release = release

    def init(self, handle: StatefulProcessorHandle) -> None:
        schema = "n long" if self.release == 1 else "n long, s string"
        self._count = handle.getValueState("count", schema)
        self._all = handle.getListState("all", schema)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Any,
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        events = sorted(((row.v, row.s) for row in rows), key=repr)
        before = self._count.get() if self._count.exists() else None
        count = (before[0] if before else 0) + len(events)
        value = (count,) if self.release == 1 else (count, events[-1][1])
        self._count.update(value)
        self._all.appendValue(value)
        kept = [tuple(value) for value in self._all.get()]
        yield Row(k=key[0], what="input", kept=f"{before and tuple(before)} -> {kept}")


class Numbered(StatefulProcessor):
    """Emits each row of a key at its event time, with its number among those of the key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "n long")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Any,
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        counted = self._count.get()
        count = counted[0] if counted is not None else 0
        for at, v in sorted((row.ts, row.v) for row in rows):
            count += 1
            yield Row(k=key[0], at=at, n=count, v=v)
        self._count.update((count,))


class Remembering(StatefulProcessor):
    """Emits each kind of state of a key, and then adds the rows to all of them.

    Attributes:
        ttl_ms: the TTL of each of them.
    """

    def __init__(self, ttl_ms: int) -> None:
        self.ttl_ms = ttl_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._total = handle.getValueState("total", "n long", self.ttl_ms)
        self._recent = handle.getListState("recent", "v int", self.ttl_ms)
        self._counts = handle.getMapState("counts", "s string", "n long", self.ttl_ms)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Any,
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        total = self._total.get()
        counts = {name[0]: count[0] for name, count in self._counts.iterator()}
        kept = (total and total[0], [v for (v,) in self._recent.get()], sorted(counts.items()))
        for row in rows:
            total = ((total[0] if total else 0) + 1,)
            self._total.update(total)
            self._recent.appendValue((row.v,))
            counts[row.s] = counts.get(row.s, 0) + 1
            self._counts.updateValue((row.s,), (counts[row.s],))
        yield Row(k=key[0], what="input", kept=repr(kept))
