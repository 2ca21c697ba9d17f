"""The cost per day of a query's requests and bytes, by the price lists of object stores."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from cleancut._brief import Brief
from cleancut._checkpoint.read.epoch_info import EpochInfo
from cleancut._display import html
from cleancut._display.info_list import InfoList
from cleancut._display.tables import BARS, rank
from cleancut._format.cut.costs import RequestsByKind

_DAY_S = 86_400
_MONTH_DAYS = 30
_GB = 10**9

BillingClass = Literal["A", "B", "free"]

# Billing class of each kind of request. The names are R2's; S3 has the same two groups. Deletes are
# free.
CLASSES: Mapping[str, BillingClass] = {
    "put": "A",
    "create": "A",
    "list": "A",
    "uploadStart": "A",
    "uploadPart": "A",
    "uploadComplete": "A",
    "listUploads": "A",
    "get": "B",
    "getRange": "B",
    "head": "B",
    "delete": "free",
    "uploadAbort": "free",
}


@dataclass(frozen=True, repr=False)
class PriceList(Brief):
    """The published unit prices of one object store, in US dollars.

    Attributes:
        name: name of the object store.
        as_of: date of the prices.
        class_a_per_million: price of a million writes and listings.
        class_b_per_million: price of a million reads.
        gb_month: price of a gigabyte (10^9 bytes) stored for a month.
    """

    name: str
    as_of: date
    class_a_per_million: float
    class_b_per_million: float
    gb_month: float


# Default price lists of estimates. They exclude free tiers, discounts, and R2's rounding to whole
# millions.
PRICES: tuple[PriceList, ...] = (
    # PUT, COPY, POST and LIST $0.005 per 1,000; GET and HEAD $0.0004 per 1,000.
    PriceList("AWS S3 Standard, us-east-1", date(2026, 11, 20), 5.00, 0.40, 0.023),
    PriceList("Cloudflare R2 Standard", date(2026, 11, 20), 4.50, 0.36, 0.015),
)


@dataclass(frozen=True, repr=False)
class DailyCost(Brief):
    """An estimate of the cost of one query per day at one object store.

    Attributes:
        store: name of the object store.
        as_of: date of the prices.
        epochs_per_day: number of epochs per day, at the average pace of the past epochs.
        class_a_per_day: number of writes and listings.
        class_b_per_day: number of reads.
        free_per_day: number of deletes.
        stored_bytes: current size of the query's state and cuts.
        requests_usd: US dollars per day for requests.
        storage_usd: US dollars per day for storage.
        usd: US dollars per day for both.
    """

    store: str
    as_of: date = field(metadata=rank(1))
    epochs_per_day: float = field(metadata=rank(2))
    class_a_per_day: float
    class_b_per_day: float
    free_per_day: float = field(metadata=rank(3))
    stored_bytes: int = field(metadata=rank(1))
    requests_usd: float = field(metadata=rank(1))
    storage_usd: float = field(metadata=rank(1))
    usd: float = field(metadata=BARS)


class DailyCosts(InfoList[DailyCost]):
    """Estimates by several price lists; the printed form states their basis."""

    def __str__(self) -> str:
        return f"{super().__str__()}\n{_NOTE}"

    def _repr_html_(self) -> str:
        return super()._repr_html_() + html.text(_NOTE)


def _named(billing: BillingClass) -> str:
    return ", ".join(kind for kind, billed in CLASSES.items() if billed == billing)


_NOTE = (
    "This is an estimate: the requests of past epochs, repetitions included, at their pace all "
    "day, and the bytes that are stored now. It leaves out starts of the query, readers of the "
    "checkpoint, traffic, free tiers and taxes. "
    f"Class A: {_named('A')}. Class B: {_named('B')}. Free: {_named('free')}."
)


def daily_costs(
    epochs: Iterable[EpochInfo], stored_bytes: int, prices: Sequence[PriceList]
) -> DailyCosts | None:
    """Estimates the cost per day.

    Only epochs that follow another epoch of the same run count: the time between two runs has no
    known pace and no known cost.

    Returns:
        The estimates; None if no such epoch has recorded its costs.
    """
    seconds, count, requests = 0.0, 0, RequestsByKind()
    before: EpochInfo | None = None
    for epoch in epochs:
        if before is not None and epoch.requests is not None and _follows(before, epoch):
            seconds += (epoch.written - before.written).total_seconds()
            count += 1
            requests += epoch.requests
        before = epoch
    if seconds <= 0:
        return None
    a_day = _DAY_S / seconds
    by_class = _by_class(requests)
    return DailyCosts(
        _daily_cost(
            one,
            count * a_day,
            {billing: n * a_day for billing, n in by_class.items()},
            stored_bytes,
        )
        for one in prices
    )


def request_costs(requests: RequestsByKind, prices: PriceList) -> float:
    """The cost of requests in US dollars."""
    return _dollars(_by_class(requests), prices)


def _by_class(requests: RequestsByKind) -> Mapping[BillingClass, int]:
    counts: dict[BillingClass, int] = {"A": 0, "B": 0, "free": 0}
    for kind, counted in requests.items():
        # An unknown kind, from a later release, has the price of the most expensive class.
        counts[CLASSES.get(kind, "A")] += counted.requests
    return counts


def _dollars(by_class: Mapping[BillingClass, float], prices: PriceList) -> float:
    return (
        by_class["A"] * prices.class_a_per_million + by_class["B"] * prices.class_b_per_million
    ) / 1e6


def _follows(before: EpochInfo, epoch: EpochInfo) -> bool:
    return (before.epoch + 1, before.generation) == (epoch.epoch, epoch.generation)


def _daily_cost(
    prices: PriceList,
    epochs: float,
    by_class: Mapping[BillingClass, float],
    stored_bytes: int,
) -> DailyCost:
    of_requests = _dollars(by_class, prices)
    of_storage = stored_bytes / _GB * prices.gb_month / _MONTH_DAYS
    return DailyCost(
        store=prices.name,
        as_of=prices.as_of,
        epochs_per_day=epochs,
        class_a_per_day=by_class["A"],
        class_b_per_day=by_class["B"],
        free_per_day=by_class["free"],
        stored_bytes=stored_bytes,
        requests_usd=of_requests,
        storage_usd=of_storage,
        usd=of_requests + of_storage,
    )
