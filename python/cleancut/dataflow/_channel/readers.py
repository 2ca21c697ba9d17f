"""The readers of a channel, and the epochs that their checkpoints may still read again."""

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
        query_id: Spark's query id.
        source: number of the query's source that reads the channel, from 0.
        checkpoint: its checkpoint location when it started.
        oldest: the last epoch that all of its cuts and savepoints have read; None if one of them
            has read none.
        newest: the last epoch that any of them has read; None before the first.
    """

    query_id: str
    source: str = field(metadata=rank(1))
    checkpoint: str
    oldest: int | None
    newest: int | None


@dataclass(frozen=True)
class Registered:
    """The registration of a reader in the channel, from before its first read.

    Attributes:
        query_id: Spark's query id.
        source: number of the source.
        checkpoint: the checkpoint location.
    """

    query_id: str
    source: str
    checkpoint: str


def registered(records: Records) -> list[Registered]:
    """All registrations of a channel.

    Raises:
        CorruptedError: CLEANCUT_SINK_CORRUPTED, a registration cannot be read.
    """

    def read(name: str) -> Registered | None:
        path = f"{READERS}/{name}"
        body = records.read(path)
        if body is None:
            return None
        return decoded(
            body,
            records.at(path),
            lambda fields: Registered(
                typed(fields, "queryId", str),
                typed(fields, "source", str),
                typed(fields, "checkpoint", str),
            ),
        )

    return [
        registration
        for registration in mapped(read, sorted(records.names(READERS)))
        if registration is not None
    ]


def readers_of(records: Records, access: S3Access) -> list[ChannelReader]:
    """The readers, and the epochs that they have read.

    Args:
        records: the records of the channel.
        access: how to reach buckets.

    Raises:
        RequestError: CLEANCUT_CHANNEL_READER_LOST.
    """

    def reader(registration: Registered) -> ChannelReader:
        read = list(_read(registration, records.location, access))
        # A reader that has just started has no cut, and needs all epochs.
        oldest, newest = min(read, default=NOT_BEGUN), max(read, default=NOT_BEGUN)
        return ChannelReader(
            registration.query_id,
            registration.source,
            registration.checkpoint,
            _known(oldest),
            _known(newest),
        )

    return [reader(registration) for registration in registered(records)]


def forget_reader(records: Records, query_id: str) -> bool:
    """Deletes the registrations of a query; returns whether there was one."""
    registrations = [
        registration for registration in registered(records) if registration.query_id == query_id
    ]
    for registration in registrations:
        records.delete(f"{READERS}/{registration.query_id}-{registration.source}.json")
    return bool(registrations)


def _known(epoch: int) -> int | None:
    return None if epoch == NOT_BEGUN else epoch


def _read(registration: Registered, channel: str, access: S3Access) -> Iterator[int]:
    """The last epoch that each of a reader's cuts and savepoints has read."""
    here = access if registration.checkpoint.startswith(SCHEMES) else S3Access()
    try:
        entries = list(_entries(registration.checkpoint, here))
    except (CleancutError, OSError) as failure:
        raise error_of(
            "CLEANCUT_CHANNEL_READER_LOST",
            channel=channel,
            query=registration.query_id,
            checkpoint=registration.checkpoint,
            detail=failure,
        ) from failure
    for entry in entries:
        places = {consumed.source: consumed.epoch for consumed in consumed_in(entry)}
        yield places.get(registration.source, NOT_BEGUN)


def _entries(checkpoint: str, access: S3Access) -> Iterable[str]:
    """The entries of the offset log that a query may restart from."""
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
    """The entries of Spark's own log, for a checkpoint without cuts."""
    checkpoint.read("metadata")
    names = [name for name in checkpoint.list(_OFFSETS) if name.rpartition("/")[2].isdecimal()]

    def read(name: str) -> str | None:
        # Spark may delete the oldest ones concurrently.
        with suppress(FileNotFoundError):
            return checkpoint.read(name).decode()
        return None

    return [entry for entry in mapped(read, names) if entry is not None]
