"""Where the rows of an epoch lie in a topic of Kafka, as its manifest says."""

from dataclasses import dataclass
from typing import Any

from cleancut._format.fields import typed


@dataclass(frozen=True)
class TopicRange:
    """The rows of an epoch in one partition. Records of others may lie between them.

    Attributes:
        partition: of the topic.
        first: the offset of the first of them.
        last: the offset of the last one.
        rows: how many these are; from 1 on.
        bytes: of their values together.
    """

    partition: int
    first: int
    last: int
    rows: int
    bytes: int

    def to_json(self) -> dict[str, Any]:
        """As a manifest has it."""
        return {
            "partition": self.partition,
            "first": self.first,
            "last": self.last,
            "rows": self.rows,
            "bytes": self.bytes,
        }

    @staticmethod
    def parse(fields: dict[str, Any]) -> "TopicRange":
        """Reads what `to_json` gave.

        Raises:
            ValueError: it is none.
        """
        found = TopicRange(
            typed(fields, "partition", int),
            typed(fields, "first", int),
            typed(fields, "last", int),
            typed(fields, "rows", int),
            typed(fields, "bytes", int),
        )
        if not 1 <= found.rows <= found.last - found.first + 1:
            raise ValueError(f"{found.rows} rows do not lie from {found.first} to {found.last}")
        return found


@dataclass(frozen=True)
class TopicRows:
    """The rows of an epoch.

    Attributes:
        servers: brokers to begin with, as the sender reached them.
        name: of the topic.
        ranges: of the partitions that have some of them, ascending.
    """

    servers: str
    name: str
    ranges: tuple[TopicRange, ...]

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(of.rows for of in self.ranges)

    @property
    def bytes(self) -> int:
        """Of their values together."""
        return sum(of.bytes for of in self.ranges)

    def to_json(self) -> dict[str, Any]:
        """As a manifest has it."""
        ranges = [of.to_json() for of in self.ranges]
        return {"servers": self.servers, "name": self.name, "ranges": ranges}

    @staticmethod
    def in_fields(fields: dict[str, Any]) -> "TopicRows":
        """Those of a manifest.

        Raises:
            ValueError: it does not say, or not so.
        """
        of = typed(fields, "topic", dict)
        ranges = tuple(map(TopicRange.parse, typed(of, "ranges", list)))
        return TopicRows(typed(of, "servers", str), typed(of, "name", str), ranges)
