"""Epochs as spans: durations of phases, and of the slowest operators and stores."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cleancut._checkpoint.read.epoch_info import EpochInfo
from cleancut._format.cut.costs import StoreTime

Value = str | int
# Consecutive phases; docs/FORMAT.md describes them.
_COMMIT = ("collect", "owner", "offsets")
_FIRST = ("source", "planning")
_LAST = ("sink", "state operators", "map side")
# The times since the first open store.
_AFTER_OPEN = ("stateMs", "sinkMs", "sealMs", "gateMs")


@dataclass(frozen=True)
class Span:
    """A part of an epoch.

    Attributes:
        id: id within its epoch; "" for the epoch itself.
        parent: id of the span that contains it; None for the epoch.
        name: displayed name.
        begin_ms: start, in milliseconds since 1970.
        end_ms: end, in milliseconds since 1970.
        attributes: further attributes.
    """

    id: str
    parent: str | None
    name: str
    begin_ms: int
    end_ms: int
    attributes: Mapping[str, Value] = field(default_factory=dict)


def spans_of(info: EpochInfo) -> Iterator[Span]:
    """The span of an epoch, followed by the spans of its parts.

    For operators and stores only the duration is known, not the start: their spans start with the
    first open store, and have the attribute `cleancut.begin`. Only the slowest ones have a span.
    """
    written_ms = round(info.written.timestamp() * 1000)
    begin_ms = written_ms - (info.duration_ms or info.commit_ms or 0)
    end_ms = written_ms + (info.cut_ms or 0)
    yield Span("", None, "epoch", begin_ms, end_ms, dict(_facts(info)))
    if info.duration_ms is not None:
        yield from _phases(info, begin_ms, written_ms)
    if info.commit_ms is not None:
        at_ms = written_ms - info.commit_ms
        yield Span("commit", "", "commit", at_ms, written_ms)
        for phase in _COMMIT:
            ms = info.timings.get(f"{phase}Ms")
            if ms is not None:
                yield Span(f"commit/{phase}", "commit", f"commit: {phase}", at_ms, at_ms + ms)
                at_ms += ms
    if info.cut_ms is not None:
        yield Span("cut", "", "write of the cut", written_ms, end_ms)
    opened_ms = written_ms - sum(info.timings.get(key, 0) for key in _AFTER_OPEN)
    yield from _operators(info, max(begin_ms, opened_ms), written_ms)


def _phases(info: EpochInfo, begin_ms: int, written_ms: int) -> Iterator[Span]:
    """The phases before the commit: two from the start of the trigger, three until the commit."""
    first_ms, end_ms = begin_ms, written_ms - (info.commit_ms or 0)
    for name in _FIRST:
        if ms := info.phases[name]:
            yield Span(name, "", name, first_ms, min(first_ms + ms, end_ms))
            first_ms = min(first_ms + ms, end_ms)
    end_ms -= info.timings.get("sealMs", 0)
    for name in _LAST:
        if ms := info.phases[name]:
            yield Span(name, "", name, max(end_ms - ms, begin_ms), end_ms)
            end_ms = max(end_ms - ms, begin_ms)


def _operators(info: EpochInfo, begin_ms: int, last_ms: int) -> Iterator[Span]:
    by_operator: dict[int, list[StoreTime]] = {}
    for store in info.slowest or ():
        by_operator.setdefault(store.operator, []).append(store)
    assumed: dict[str, Value] = {"cleancut.begin": "assumed"}
    for operator, stores in sorted(by_operator.items()):

        def end_ms(ms: int) -> int:
            # It was opened and accepted in the epoch, but clocks are rounded.
            return min(begin_ms + ms, last_ms)

        operator_id = f"operator/{operator}"
        facts = {**assumed, "cleancut.operator": operator}
        longest = max(store.ms for store in stores)
        yield Span(operator_id, "", f"operator {operator}", begin_ms, end_ms(longest), facts)
        for at, store in enumerate(stores):
            more: dict[str, Value] = {
                "cleancut.partition": store.partition,
                "cleancut.store": store.store,
            }
            if store.executor:
                more |= {"cleancut.executor": store.executor, "host.name": store.host}
            name = f"store {store.partition}/{store.store}"
            yield Span(
                f"{operator_id}/{at}",
                operator_id,
                name,
                begin_ms,
                end_ms(store.ms),
                {**facts, **more},
            )


def _facts(info: EpochInfo) -> Iterator[tuple[str, Value]]:
    yield "cleancut.epoch", info.epoch
    yield "cleancut.generation", info.generation
    yield "cleancut.stores", info.stores
    yield "cleancut.mode", info.mode
    yield "cleancut.in_flight_rows", info.in_flight_rows
    if info.requests is not None:
        yield "cleancut.requests", info.requests.total.requests
    if info.slow is not None:
        yield "cleancut.slow.kind", info.slow.kind
        yield "cleancut.slow.detail", info.slow.detail
        yield "cleancut.slow.typical_ms", info.slow.typical_ms
