"""How evenly the state of an operator lies over its partitions."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median

from cleancut._brief import Brief
from cleancut._display import charts
from cleancut._display.tables import BARS, drawn, rank
from cleancut._format.layout import StoreId


@dataclass(frozen=True, repr=False)
class PartitionSize(Brief):
    """How much state a partition has.

    Attributes:
        partition: Spark's partition id.
        bytes: the size of its frames.
    """

    partition: int
    bytes: int


def _drawing(sizes: Iterable[PartitionSize]) -> str:
    return charts.spread([(f"partition {of.partition}", of.bytes) for of in sizes])


@dataclass(frozen=True, repr=False)
class SkewInfo(Brief):
    """The sizes of one operator's stores of one name, as their frames are stored.

    Attributes:
        operator: Spark's operator id.
        store: Spark's name of the store.
        partitions: how many there are.
        bytes: the size of the frames of all.
        largest: the partition that has most.
        largest_bytes: the size of its frames.
        median_bytes: that of half of the partitions is no larger.
        factor: how many times the median the largest is; infinite where the median is 0.
        sizes: of all partitions, by their ids.
    """

    operator: int
    store: str
    partitions: int
    bytes: int = field(metadata=BARS)
    largest: int
    largest_bytes: int = field(metadata=rank(1))
    median_bytes: int = field(metadata=rank(2))
    factor: float
    sizes: tuple[PartitionSize, ...] = field(default=(), metadata=drawn(_drawing))


def skew_infos(sizes: Iterable[tuple[StoreId, int]]) -> Iterator[SkewInfo]:
    """Describes stores by their sizes, the most uneven first."""
    by_name: dict[tuple[int, str], dict[int, int]] = {}
    for store, size in sizes:
        by_name.setdefault((store.operator, store.store), {})[store.partition] = size
    infos = [_skew_info(*name, own) for name, own in by_name.items()]
    yield from sorted(infos, key=lambda of: (-of.factor, of.operator, of.store))


def _skew_info(operator: int, store: str, sizes: dict[int, int]) -> SkewInfo:
    largest = max(sizes, key=lambda partition: (sizes[partition], -partition))
    middle = median(sizes.values())
    return SkewInfo(
        operator=operator,
        store=store,
        partitions=len(sizes),
        bytes=sum(sizes.values()),
        largest=largest,
        largest_bytes=sizes[largest],
        median_bytes=round(middle),
        factor=round(sizes[largest] / middle, 2) if middle else float("inf"),
        sizes=tuple(PartitionSize(*of) for of in sorted(sizes.items())),
    )
