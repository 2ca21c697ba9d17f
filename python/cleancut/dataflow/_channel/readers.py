"""Who reads a channel, and what of it their checkpoints may still come back to."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from cleancut._brief import Brief
from cleancut._checkpoint.read.history import History
from cleancut._checkpoint.read.root import objects_at, open_root
from cleancut._display.tables import rank
from cleancut._format.fields import typed
from cleancut._storage.access import S3Access
from cleancut._storage.objects import Place
from cleancut._storage.parallel import mapped
from cleancut._storage.s3 import SCHEMES
from cleancut.dataflow._model.facts import consumed_in
from cleancut.dataflow._model.vector import NOT_BEGUN
from cleancut.errors import CleancutError, error_of
from cleancut.sinks._epoch_log.manifest import decoded
from cleancut.sinks._epoch_log.records import Records

READERS = "_readers"
_OFFSETS = "offsets"


@dataclass(frozen=True, repr=False)
class ChannelReader(Brief):
    """A query that reads a channel.

    Attributes:
        query_id: Spark's id of the query.
        source: which of its sources reads, from 0 on.
        checkpoint: where its checkpoint lay when it began.
        oldest: the last epoch that all of its cuts and savepoints have read; None if there is one
            that has read none.
        newest: the last epoch that one of them has read; None before the first.
    """

    query_id: str
    source: str = field(metadata=rank(1))
    checkpoint: str
    oldest: int | None
    newest: int | None


@dataclass(frozen=True)
class Registered:
    """What a reader has noted in the channel, before it first read it.

    Attributes:
        query_id: Spark's id of it.
        source: which of its sources.
        checkpoint: where its checkpoint lies.
    """

    query_id: str
    source: str
    checkpoint: str


def registered(records: Records) -> list[Registered]:
    """All that have noted that they read a channel.

    Raises:
        CorruptedError: CLEANCUT_SINK_CORRUPTED, a note cannot be read.
    """

    def read(name: str) -> Registered | None:
        path = f"{READERS}/{name}"
        body = records.read(path)
        if body is None:
            return None
        return decoded(
            body,
            records.at(path),
            lambda of: Registered(
                typed(of, "queryId", str), typed(of, "source", str), typed(of, "checkpoint", str)
            ),
        )

    return [of for of in mapped(read, sorted(records.names(READERS))) if of is not None]


def readers_of(records: Records, access: S3Access) -> list[ChannelReader]:
    """The readers, and how far they have read.

    Args:
        records: of the channel.
        access: how buckets are asked.

    Raises:
        RequestError: CLEANCUT_CHANNEL_READER_LOST.
    """

    def reader(of: Registered) -> ChannelReader:
        read = list(_read(of, records.location, access))
        # One that has just begun has no cut, and needs all that there is.
        oldest, newest = min(read, default=NOT_BEGUN), max(read, default=NOT_BEGUN)
        return ChannelReader(of.query_id, of.source, of.checkpoint, _known(oldest), _known(newest))

    return [reader(of) for of in registered(records)]


def forget_reader(records: Records, query_id: str) -> bool:
    """Removes the notes of a query; whether there was one."""
    found = [of for of in registered(records) if of.query_id == query_id]
    for of in found:
        records.delete(f"{READERS}/{of.query_id}-{of.source}.json")
    return bool(found)


def _known(epoch: int) -> int | None:
    return None if epoch == NOT_BEGUN else epoch


def _read(of: Registered, channel: str, access: S3Access) -> Iterator[int]:
    """The last epoch that each of a reader's cuts and savepoints has read."""
    here = access if of.checkpoint.startswith(SCHEMES) else S3Access()
    try:
        entries = list(_entries(of.checkpoint, here))
    except (CleancutError, OSError) as failure:
        raise error_of(
            "CLEANCUT_CHANNEL_READER_LOST",
            channel=channel,
            query=of.query_id,
            checkpoint=of.checkpoint,
            detail=failure,
        ) from failure
    for entry in entries:
        places = {found.source: found.epoch for found in consumed_in(entry)}
        yield places.get(of.source, NOT_BEGUN)


def _entries(checkpoint: str, access: S3Access) -> Iterable[str]:
    """The entries of the offset log that a query may come back to."""
    try:
        root = open_root(checkpoint, access)
    except CleancutError as failure:
        if failure.error_id != "CLEANCUT_CHECKPOINT_NOT_FOUND":
            raise
        return _logged(objects_at(checkpoint, "", access))
    history = History(root)
    cuts = [*history.cuts(), *map(history.savepoint, root.savepoints())]
    return [cut.offsets for cut in cuts] if cuts else _logged(root.checkpoint)


def _logged(checkpoint: Place) -> list[str]:
    """Those of Spark's own log, where no cut has them."""
    checkpoint.read("metadata")
    names = [name for name in checkpoint.list(_OFFSETS) if name.rpartition("/")[2].isdecimal()]

    def read(name: str) -> str | None:
        # Spark deletes the oldest meanwhile.
        with suppress(FileNotFoundError):
            return checkpoint.read(name).decode()
        return None

    return [of for of in mapped(read, names) if of is not None]
