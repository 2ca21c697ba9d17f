"""Reads the pages of a cut and its window of segments."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from cleancut._format.cut.segment import HEADER_SIZE, TRAILER_SIZE
from cleancut._format.fields import typed
from cleancut._format.layout import PageName, StoreId, parse_page_name, parse_segment_name

_MAX_CRC = 2**32 - 1


@dataclass(frozen=True, slots=True)
class PageRef:
    """The reference of a cut to a page.

    Attributes:
        name: name of the page.
        length: its length in bytes.
        crc: CRC-32 of its bytes.
        stores: number of stores in it.
        first: the first store.
    """

    name: PageName
    length: int
    crc: int
    stores: int
    first: StoreId

    @property
    def epoch(self) -> int:
        """The epoch after which its chains end."""
        return self.name.epoch


class Table(NamedTuple):
    """The reference of a cut to the table after the frames of a segment.

    Attributes:
        segment: name of the segment below the root.
        length: length of the segment in bytes.
        size: size of the table and the trailer in bytes.
        crc: CRC-32 of these bytes.
    """

    segment: str
    length: int
    size: int
    crc: int


@dataclass(frozen=True, slots=True)
class WindowPart:
    """A segment whose frames a cut has adopted.

    Attributes:
        table: reference to its table.
        epoch: epoch of the cut.
        counted: the offsets of the counting frames; None if `uncounted` is given.
        uncounted: the offsets of the other frames, if `counted` is None.
    """

    table: Table
    epoch: int
    counted: frozenset[int] | None
    uncounted: frozenset[int]

    @property
    def segment(self) -> str:
        """The name of the segment below the root."""
        return self.table.segment

    def counts(self, offset: int) -> bool:
        """Whether the frame at an offset counts."""
        return offset not in self.uncounted if self.counted is None else offset in self.counted


@dataclass(frozen=True, slots=True)
class PagedChains:
    """The pages and the window, in which the chains of all stores are stored.

    Attributes:
        store_count: number of stores, without those of in-flight rows.
        pages: the pages, ordered by store.
        window: segments whose tables count, ordered by epoch.
    """

    store_count: int
    pages: tuple[PageRef, ...]
    window: tuple[WindowPart, ...]


def paged_chains_of(body: dict[str, Any], epoch: int) -> PagedChains:
    """Decodes the pages and the window of the cut of an epoch.

    Raises:
        ValueError: the value is invalid.
    """
    pages = tuple(_page(fields, epoch) for fields in typed(body, "pages", list))
    if any(one.first >= other.first for one, other in pairwise(pages)):
        raise ValueError("the pages do not ascend")
    window = tuple(_part(fields, epoch) for fields in typed(body, "window", list))
    if any(one.epoch > other.epoch for one, other in pairwise(window)):
        raise ValueError("the epochs of the window descend")
    if len({(part.epoch, part.segment) for part in window}) < len(window):
        raise ValueError("a segment is twice in the window under one epoch")
    return PagedChains(_number(body, "storeCount"), pages, window)


def _page(fields: Any, epoch: int) -> PageRef:
    if not isinstance(fields, dict):
        raise ValueError("a page is not a JSON object")
    name = parse_page_name(typed(fields, "name", str))
    if name is None:
        raise ValueError("pages holds what is no page")
    if name.epoch > epoch:
        raise ValueError(f"{name} is of a later epoch")
    first = StoreId(
        typed(fields, "operator", int), typed(fields, "partition", int), typed(fields, "store", str)
    )
    if first.is_channel:
        raise ValueError(f"{name} begins with in-flight rows")
    stores, length = _number(fields, "stores", 1), _number(fields, "length", 1)
    return PageRef(name, length, _number(fields, "crc", 0, _MAX_CRC), stores, first)


def _part(fields: Any, epoch: int) -> WindowPart:
    if not isinstance(fields, dict):
        raise ValueError("an element of the window is not a JSON object")
    segment, adopted = typed(fields, "segment", str), _number(fields, "epoch")
    if parse_segment_name(segment) is None:
        raise ValueError("the window holds what is no segment")
    if adopted > epoch:
        raise ValueError(f"the frames of {segment} are adopted by a later epoch")
    if "counted" in fields and "uncounted" in fields:
        raise ValueError(f"the frames of {segment} are counted both ways")
    length = _number(fields, "length", 1)
    footer = _number(fields, "footer", TRAILER_SIZE, length - HEADER_SIZE)
    return WindowPart(
        Table(segment, length, footer, _number(fields, "crc", 0, _MAX_CRC)),
        adopted,
        frozenset(_offsets(fields, "counted")) if "counted" in fields else None,
        frozenset(_offsets(fields, "uncounted")) if "uncounted" in fields else frozenset(),
    )


def _offsets(fields: dict[str, Any], name: str) -> Sequence[int]:
    offsets: list[Any] = typed(fields, name, list)
    if any(not isinstance(offset, int) or isinstance(offset, bool) for offset in offsets):
        raise ValueError(f"{name} holds what is no number")
    if any(one >= other for one, other in pairwise([-1, *offsets])):
        raise ValueError(f"the offsets of {name} do not ascend")
    return offsets


def _number(fields: dict[str, Any], name: str, least: int = 0, most: int | None = None) -> int:
    value: int = typed(fields, name, int)
    if value < least or (most is not None and value > most):
        raise ValueError(f"{name} is {value}")
    return value
