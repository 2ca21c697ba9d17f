"""The facts of a cut that concern other queries, and the cuts that count after operations."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cleancut._format.cut.cut import read_cut
from cleancut._format.spark.log_entries import offsets_of, source_of_operation
from cleancut.dataflow._model.vector import NOT_BEGUN


@dataclass(frozen=True)
class Consumed:
    """The position of a source in a channel.

    Attributes:
        source: number of the source in the query.
        channel: location of the channel in the offset.
        epoch: the last consumed epoch; -1 for none.
        attempt: the attempt that published it; None for none.
    """

    source: str
    channel: str
    epoch: int
    attempt: str | None


@dataclass(frozen=True)
class CutFacts:
    """The facts of a cut.

    Attributes:
        epoch: Spark's batch id.
        token: random token, unique among the cuts of the epoch.
        query_id: Spark's query id, if it is known.
        written_ms: time at which it was written, in Unix time.
        consumed: the positions of its sources in channels.
        source: for a cut of an operation, the epoch whose result it has; else None.
    """

    epoch: int
    token: str
    query_id: str | None
    written_ms: int
    consumed: tuple[Consumed, ...]
    source: int | None


def facts_of(data: bytes, path: str, epoch: int | None) -> CutFacts:
    """Reads the facts of a cut. Raises as `read_cut` does."""
    cut = read_cut(data, path, epoch)
    return CutFacts(
        epoch=cut.epoch,
        token=cut.token,
        query_id=cut.query_id,
        written_ms=cut.written_ms,
        consumed=tuple(consumed_in(cut.offsets)),
        source=source_of_operation(cut.offsets),
    )


def consumed_in(offsets: str) -> Iterator[Consumed]:
    """The positions in channels, from an entry of Spark's offset log."""
    for source, text in offsets_of(offsets).items():
        try:
            offset = None if text is None else json.loads(text)
        except ValueError:
            continue
        if not isinstance(offset, dict):
            continue
        channel, epoch, attempt = (offset.get(name) for name in ("channel", "epoch", "attempt"))
        if not isinstance(epoch, int) or isinstance(epoch, bool):
            continue
        if isinstance(channel, str) and (attempt is None or isinstance(attempt, str)):
            yield Consumed(source, place_of(channel), max(epoch, NOT_BEGUN), attempt)


def place_of(location: str) -> str:
    """A location in canonical form, to compare locations."""
    text = location.rstrip("/")
    for scheme in ("file:///", "file:/"):
        if text.startswith(scheme):
            return f"file:/{text.removeprefix(scheme)}"
    if text.startswith("s3a://"):
        return f"s3://{text.removeprefix('s3a://')}"
    return f"file:{text}" if text.startswith("/") else text


@dataclass(frozen=True)
class Lineage:
    """The epochs of a query that are in its current state.

    An operation is an epoch after all others. If it rolls back, the epochs between its source and
    itself do not count: neither their cuts nor the epochs that were sent in them.

    Attributes:
        last: the last epoch that has a cut.
        operations: epoch and source of each operation, ascending.
    """

    last: int
    operations: tuple[tuple[int, int], ...]

    @staticmethod
    def of(cuts: Iterable[CutFacts]) -> "Lineage":
        """The lineage of a query, by its cuts."""
        by_epoch = sorted(cuts, key=lambda cut: cut.epoch)
        operations = tuple((cut.epoch, cut.source) for cut in by_epoch if cut.source is not None)
        return Lineage(by_epoch[-1].epoch if by_epoch else NOT_BEGUN, operations)

    def also(self, operations: Iterable[tuple[int, int]]) -> "Lineage":
        """The lineage with operations from other records.

        A sink records several consecutive operations as one: the last one, with their overall
        source.
        """
        known = dict(self.operations)
        for operation, source in operations:
            known[operation] = min(source, known.get(operation, source))
        return Lineage(self.last, tuple(sorted(known.items())))

    def at(self, epoch: int) -> "Lineage":
        """The lineage at an earlier cut."""
        return Lineage(
            epoch, tuple(operation for operation in self.operations if operation[0] <= epoch)
        )

    def counts(self, epoch: int) -> bool:
        """Whether an epoch up to the last one is in the state after that one."""
        until = self.last
        for operation, source in reversed(self.operations):
            if operation > until:
                continue
            # Later than the last one: a published epoch that has no cut yet.
            if epoch >= operation:
                return True
            if epoch > source:
                return False
            until = source
        return True


def counting_cuts(cuts: Sequence[CutFacts]) -> list[CutFacts]:
    """The cuts that are not rolled back, ascending."""
    lineage = Lineage.of(cuts)
    return sorted((cut for cut in cuts if lineage.counts(cut.epoch)), key=lambda cut: cut.epoch)
