"""Epochs as spans: what each took, and which operators and stores took longest in it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cleancut._checkpoint.read.epoch_info import EpochInfo
from cleancut._format.cut.costs import StoreTime

Value = str | int
# One behind the other; docs/FORMAT.md has what they are.
_COMMIT = ("collect", "owner", "offsets")


@dataclass(frozen=True)
class Span:
    """A part of an epoch.

    Attributes:
        id: within its epoch, which itself has "".
        parent: the id of what it is part of; None of the epoch.
        name: what is shown of it.
        begin_ms: in milliseconds since 1970.
        end_ms: likewise.
        attributes: what is known of it beside.
    """

    id: str
    parent: str | None
    name: str
    begin_ms: int
    end_ms: int
    attributes: Mapping[str, Value] = field(default_factory=dict)


def spans_of(info: EpochInfo) -> Iterator[Span]:
    """An epoch, and behind it what it was made of.

    Of operators and stores it is known how long they took, and not when they began: they are drawn
    from the beginning of the epoch, and say so by `cleancut.begin`. Only those are there that took
    longest.
    """
    written_ms = round(info.written.timestamp() * 1000)
    begin_ms = written_ms - (info.duration_ms or info.commit_ms or 0)
    end_ms = written_ms + (info.cut_ms or 0)
    yield Span("", None, "epoch", begin_ms, end_ms, dict(_facts(info)))
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
    yield from _operators(info, begin_ms, written_ms)


def _operators(info: EpochInfo, begin_ms: int, last_ms: int) -> Iterator[Span]:
    by_operator: dict[int, list[StoreTime]] = {}
    for store in info.slowest or ():
        by_operator.setdefault(store.operator, []).append(store)
    assumed: dict[str, Value] = {"cleancut.begin": "assumed"}
    for operator, stores in sorted(by_operator.items()):

        def end_ms(ms: int) -> int:
            # It was opened and accepted in the epoch, by clocks that are rounded.
            return min(begin_ms + ms, last_ms)

        own = f"operator/{operator}"
        facts = {**assumed, "cleancut.operator": operator}
        longest = max(of.ms for of in stores)
        yield Span(own, "", f"operator {operator}", begin_ms, end_ms(longest), facts)
        for at, of in enumerate(stores):
            more: dict[str, Value] = {
                "cleancut.partition": of.partition,
                "cleancut.store": of.store,
            }
            if of.executor:
                more |= {"cleancut.executor": of.executor, "host.name": of.host}
            name = f"store {of.partition}/{of.store}"
            yield Span(f"{own}/{at}", own, name, begin_ms, end_ms(of.ms), {**facts, **more})


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
