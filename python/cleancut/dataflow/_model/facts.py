"""What a cut tells that matters to other queries, and which cuts count after acts on a query."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cleancut._format.cut.cut import read_cut
from cleancut._format.spark.log_entries import offsets_of, source_of_act
from cleancut.dataflow._model.vector import NOT_BEGUN


@dataclass(frozen=True)
class Consumed:
    """Where a source stands that reads a channel.

    Attributes:
        source: its number in the query.
        channel: the location of the channel, as the offset has it.
        epoch: the last epoch that was consumed; -1 for none.
        attempt: by which that was published; None where none was consumed.
    """

    source: str
    channel: str
    epoch: int
    attempt: str | None


@dataclass(frozen=True)
class CutFacts:
    """What is kept of a cut.

    Attributes:
        epoch: Spark's batch id.
        token: tells it from another cut of the same epoch.
        query_id: Spark's id of the query, where it is known.
        written_ms: when it was written, in Unix time.
        consumed: by its sources that read channels.
        source: of a cut that an act has made, the epoch whose result it has; else None.
    """

    epoch: int
    token: str
    query_id: str | None
    written_ms: int
    consumed: tuple[Consumed, ...]
    source: int | None


def facts_of(data: bytes, path: str, epoch: int | None) -> CutFacts:
    """What a cut tells. Raises as `read_cut` does."""
    cut = read_cut(data, path, epoch)
    return CutFacts(
        epoch=cut.epoch,
        token=cut.token,
        query_id=cut.query_id,
        written_ms=cut.written_ms,
        consumed=tuple(consumed_in(cut.offsets)),
        source=source_of_act(cut.offsets),
    )


def consumed_in(offsets: str) -> Iterator[Consumed]:
    """The sources that read channels, by an entry of Spark's log of offsets."""
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
    """A location in the one form by which places are compared."""
    text = location.rstrip("/")
    for scheme in ("file:///", "file:/"):
        if text.startswith(scheme):
            return f"file:/{text.removeprefix(scheme)}"
    if text.startswith("s3a://"):
        return f"s3://{text.removeprefix('s3a://')}"
    return f"file:{text}" if text.startswith("/") else text


@dataclass(frozen=True)
class Lineage:
    """Which epochs of a query are in the state that it has now.

    An act is an epoch of its own after all others. One that goes back leaves out what lies between
    its source and itself: neither do cuts of these epochs count, nor what was sent in them.

    Attributes:
        last: the last epoch that has a cut.
        acts: epoch and source of each act, ascending.
    """

    last: int
    acts: tuple[tuple[int, int], ...]

    @staticmethod
    def of(cuts: Iterable[CutFacts]) -> "Lineage":
        """That of a query, by its cuts."""
        found = sorted(cuts, key=lambda cut: cut.epoch)
        acts = tuple((cut.epoch, cut.source) for cut in found if cut.source is not None)
        return Lineage(found[-1].epoch if found else NOT_BEGUN, acts)

    def also(self, acts: Iterable[tuple[int, int]]) -> "Lineage":
        """The same with acts that others have noted.

        A sink notes several acts in a row as the last one, and where they have led to together.
        """
        known = dict(self.acts)
        for act, source in acts:
            known[act] = min(source, known.get(act, source))
        return Lineage(self.last, tuple(sorted(known.items())))

    def at(self, epoch: int) -> "Lineage":
        """That of an earlier cut."""
        return Lineage(epoch, tuple(act for act in self.acts if act[0] <= epoch))

    def counts(self, epoch: int) -> bool:
        """Whether an epoch up to the last is in the state after that."""
        until = self.last
        for act, source in reversed(self.acts):
            if act > until:
                continue
            # Later than the last one is what was published and has no cut yet.
            if epoch >= act:
                return True
            if epoch > source:
                return False
            until = source
        return True


def that_count(cuts: Sequence[CutFacts]) -> list[CutFacts]:
    """The cuts that the query has not gone back behind, ascending."""
    lineage = Lineage.of(cuts)
    return sorted((of for of in cuts if lineage.counts(of.epoch)), key=lambda cut: cut.epoch)
