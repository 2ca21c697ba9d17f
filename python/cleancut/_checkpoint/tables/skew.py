"""The distribution of an operator's state over its partitions."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median

from cleancut._brief import Brief
from cleancut._display import charts
from cleancut._display.tables import BARS, drawn, rank
from cleancut._format.layout import StoreId


@dataclass(frozen=True, repr=False)
class PartitionSize(Brief):
    """The size of a partition's state.

    Attributes:
        partition: Spark's partition id.
        bytes: size of its frames.
    """

    partition: int
    bytes: int


def _drawing(sizes: Iterable[PartitionSize]) -> str:
    return charts.spread([(f"partition {size.partition}", size.bytes) for size in sizes])


@dataclass(frozen=True, repr=False)
class SkewInfo(Brief):
    """The sizes of one operator's stores of one name, as their frames are stored.

    Attributes:
        operator: Spark's operator id.
        store: Spark's name of the store.
        partitions: number of partitions.
        bytes: size of the frames of all partitions.
        largest: the largest partition.
        largest_bytes: size of its frames.
        median_bytes: median size over the partitions.
        factor: ratio of the largest size to the median; infinite if the median is 0.
        sizes: size of each partition, ordered by id.
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
    """Describes stores by their sizes, most uneven first."""
    by_name: dict[tuple[int, str], dict[int, int]] = {}
    for store, size in sizes:
        by_name.setdefault((store.operator, store.store), {})[store.partition] = size
    infos = [_skew_info(*name, by_partition) for name, by_partition in by_name.items()]
    yield from sorted(infos, key=lambda info: (-info.factor, info.operator, info.store))


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
        sizes=tuple(PartitionSize(*item) for item in sorted(sizes.items())),
    )
