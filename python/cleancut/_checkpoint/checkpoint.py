"""Looks into the state of a query's checkpoint, without a JVM and without changing anything."""

import os
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Unpack

import pyarrow as pa
import pyarrow.compute as pc

from cleancut._checkpoint.read.cut_info import (
    CutDetails,
    CutInfo,
    SavepointInfo,
    cut_details,
    cut_info,
    epoch_infos,
    savepoint_info,
)
from cleancut._checkpoint.read.epoch_history import EpochHistory
from cleancut._checkpoint.read.history import History, NamedState, NoVersion
from cleancut._checkpoint.read.prices import PRICES, DailyCosts, PriceList, daily_costs
from cleancut._checkpoint.read.recorded import told_epochs
from cleancut._checkpoint.read.root import Root, objects_at, open_root
from cleancut._checkpoint.replicate.followed import (
    ReplicaStatus,
    proven_times,
    replica_notes,
    replica_statuses,
)
from cleancut._checkpoint.replicate.replicas import ReplicaInfo, fence, replicate
from cleancut._checkpoint.retain.expirable import Expirable
from cleancut._checkpoint.retain.metadata import restore_metadata
from cleancut._checkpoint.retain.savepoints import pin, unpin
from cleancut._checkpoint.tables.batches import batch_reader
from cleancut._checkpoint.tables.changes import DiffInfo, change_reader, summed
from cleancut._checkpoint.tables.frames import frames_of
from cleancut._checkpoint.tables.in_flight import NO_ROWS_IN_FLIGHT, rows_in_flight
from cleancut._checkpoint.tables.lookup import rows_of_key
from cleancut._checkpoint.tables.selection import Selection
from cleancut._checkpoint.tables.skew import SkewInfo, skew_infos
from cleancut._checkpoint.tables.store_info import (
    FamilyInfo,
    FrameInfo,
    StoreInfo,
    family_infos,
    frame_info,
    store_info,
)
from cleancut._checkpoint.verify.drill import DrillInfo, drill, proofs
from cleancut._checkpoint.verify.report import VerifyReport, verify
from cleancut._display.info_list import InfoList
from cleancut._display.tables import ranges
from cleancut._format.layout import CHANNEL_PREFIX, StoreId
from cleancut._storage.access import S3Access, S3Options
from cleancut.errors import error_of


class Checkpoint(Expirable):
    """The state of one query, as its checkpoint holds it now.

    Every call lists the checkpoint anew, so that a running query can be watched. State is read at a
    version: epoch *e* turns version *e* into version *e+1*. A version that has a cut is committed.
    Where the checkpoint has no cuts (level 0), a version whose frames are there need not be one
    that Spark has committed: the highest may belong to an epoch that still runs. Versions below
    the first cut, of a checkpoint that came from level 0, are read as there.

    What is damaged, missing or exchanged raises CorruptedError, which names the object and the
    version; nothing is skipped. Errors of a file system are OSError, those of an object store
    RequestError or RetryableError.
    """

    def __init__(
        self,
        location: str | os.PathLike[str],
        **access: Unpack[S3Options],
    ) -> None:
        """Finds the checkpoint.

        Args:
            location: a query's `checkpointLocation`: a local path, `s3://bucket/prefix` (which
                takes the extra `cleancut[s3]`), or a URI of `hdfs:` or `gs:`, which Arrow reads.
            access: of an `s3://` location, how its bucket is reached: endpoint, region,
                access_point, requester_pays, encryption, profile, as `S3Options` describes them.

        Raises:
            RequestError: CLEANCUT_CHECKPOINT_NOT_FOUND, CLEANCUT_FORMAT_UNKNOWN,
                CLEANCUT_OBJECT_LOCATION_INVALID or CLEANCUT_FILE_SYSTEM_UNAVAILABLE; for `s3://`
                also CLEANCUT_OBJECT_STORE_REFUSED and CLEANCUT_DEPENDENCY_MISSING.
            RetryableError: CLEANCUT_OBJECT_STORE_UNAVAILABLE.
        """
        self._root: Root = open_root(location, S3Access(access))

    @property
    def location(self) -> str:
        """The checkpoint location as it was given."""
        return self._root.location

    def cuts(self) -> InfoList[CutInfo]:
        """All cuts, by their epochs; none in a checkpoint of level 0.

        Raises:
            CorruptedError: a cut is damaged.
        """
        return InfoList(map(cut_info, History(self._root).cuts()))

    def history(self, since: int | datetime | None = None) -> EpochHistory:
        """What each epoch cost, by their epochs; none at level 0.

        Beside that it tells why an epoch was slow, and when a drill proved its cut, if one did.

        Args:
            since: the first epoch, or when the first of them was committed; without a time zone
                that is in UTC. The key `historyRetention` limits its age. None is each epoch whose
                cut is retained.

        Raises:
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
            CorruptedError: a cut is damaged, or CLEANCUT_HISTORY_CORRUPTED.
        """
        return EpochHistory(told_epochs(self._root, since, proven_times(self._root)))

    def cost_per_day(self, prices: Sequence[PriceList] = PRICES) -> DailyCosts:
        """Estimates what the query costs in a day, from the epochs whose cuts are kept.

        Counted are the requests that these epochs made, by kind, at their pace all day, and the
        bytes that are stored now; docs/guides/inspection.md says what stores bill.

        Args:
            prices: the price lists to take, in place of those that were published.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND, where no two cuts of one run follow each other
                and tell their costs.
            CorruptedError: a cut is damaged.
        """
        history = History(self._root)
        found = daily_costs(epoch_infos(history.cuts()), self._root.stored_bytes(), prices)
        if found is None:
            available = f"cuts of epochs {ranges(history.epochs)}" if history.epochs else "no cuts"
            raise history.not_found("two cuts of one run that tell their costs", available)
        return found

    def savepoints(self) -> InfoList[SavepointInfo]:
        """All cuts that are kept by a name, by these names.

        Raises:
            CorruptedError: one is damaged.
        """
        history = History(self._root)
        names = self._root.savepoints()
        return InfoList(savepoint_info(name, history.savepoint(name)) for name in names)

    def cut(self, epoch: int | None = None, *, savepoint: str | None = None) -> CutDetails:
        """All that the cut of an epoch says: stores, chains, offsets, watermark, commit entry.

        Args:
            epoch: Spark's batch id; None is the last that has a cut.
            savepoint: the cut that is kept by this name instead.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND.
            CorruptedError: the cut is damaged.
            TypeError: both epoch and savepoint are given.
        """
        _at_most_one("cut", epoch=epoch, savepoint=savepoint)
        _require_numbers(epoch=epoch)
        history = History(self._root)
        cut = history.named_cut(epoch if savepoint is None else savepoint)
        return cut_details(cut, history.referred_sizes(cut))

    def stores(self) -> InfoList[StoreInfo]:
        """All state stores that have at least one frame, by operator, partition and name.

        Raises:
            CorruptedError: a cut is damaged.
        """
        history = History(self._root)
        found, referred = history.stores(), history.referred_sizes(history.last_cut())
        return InfoList(store_info(of, referred) for of in found)

    def versions(self, operator: int, partition: int, store: str = "default") -> tuple[int, ...]:
        """The versions of one store that have a frame, ascending.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND.
            CorruptedError: a cut is damaged.
        """
        _require_numbers(operator=operator, partition=partition)
        return History(self._root).store(StoreId(operator, partition, store)).versions

    def frames(
        self,
        operator: int,
        partition: int,
        store: str = "default",
        *,
        version: int | None = None,
    ) -> InfoList[FrameInfo]:
        """Reads the frames of one store, whole, and describes them.

        Args:
            operator: Spark's operator id.
            partition: Spark's partition id.
            store: Spark's name of the store.
            version: only the frames of this version, which may be several: a base beside the delta,
                and at level 0 those of attempts that were run again.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND or CLEANCUT_FORMAT_UNKNOWN.
            CorruptedError: a frame or a cut is damaged or misplaced.
        """
        _require_numbers(operator=operator, partition=partition, version=version)
        history = History(self._root)
        found = history.store(StoreId(operator, partition, store))
        if version is not None:
            history.require(found.versions, version, "version", str(found.store))
        return InfoList(map(frame_info, frames_of(found, history.reader, version)))

    def state(
        self,
        operator: int,
        *,
        store: str = "default",
        version: int | None = None,
        epoch: int | None = None,
        savepoint: str | None = None,
        partition: int | None = None,
        family: str = "default",
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """The rows of one operator's state, as `state_batches` gives them, in one table.

        Memory holds all rows that are asked for: where they are many, take them batch by batch.
        """
        return self.state_batches(
            operator,
            store=store,
            version=version,
            epoch=epoch,
            savepoint=savepoint,
            partition=partition,
            family=family,
            columns=columns,
            where=where,
            limit=limit,
        ).read_all()

    def state_batches(
        self,
        operator: int,
        *,
        store: str = "default",
        version: int | None = None,
        epoch: int | None = None,
        savepoint: str | None = None,
        partition: int | None = None,
        family: str = "default",
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """The rows of one operator's state, batch by batch; what is not asked for is not read.

        Rows come partition by partition, those that changed last at first; beyond that their order
        means nothing, but for the values of a list. A limit takes the first that there are. Memory
        holds a batch and what changed in a partition since its last base. The checkpoint may be
        that of a running query; a batch that is taken after retention has deleted its version
        raises CorruptedError.

        Args:
            operator: Spark's operator id.
            store: Spark's name of the store; a stream-stream join has several.
            version: the state version; None is that of the last cut. Without cuts it is the
                greatest that all partitions have, also where only one partition is read, so that
                partitions read one by one fit together.
            epoch: the epoch whose result is wanted, in place of the version after it.
            savepoint: the version that is kept by this name instead.
            partition: only this partition; None is all.
            family: the column family; `families` lists them.
            columns: some of `key`, `value`, `partition`, and fields such as `key.carrier`, which
                become columns of that name; None is the first three.
            where: only rows for which this holds, an expression over `key`, `value` and
                `partition`, such as `pyarrow.compute.field("value", "count") > 10`.
            limit: no more rows than this; None is all.

        Returns:
            A reader of batches with the struct columns `key` and `value`, typed by the schemas that
            are stored with the rows, and the int32 column `partition`. A key with a list of values
            (a ListState) has a row for each of them, in their order. Timestamps are in UTC, to the
            microsecond. Of several fields of one name, all but the first have a number after it.
            The metadata of the schema tell operator, store and version.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND, CLEANCUT_COLUMN_UNREADABLE,
                CLEANCUT_FORMAT_UNKNOWN or, on a big-endian machine, CLEANCUT_PLATFORM_UNSUPPORTED.
            CorruptedError: a cut or a frame that was read is damaged, misplaced or missing; taking
                a batch raises it too.
            TypeError: more than one of version, epoch and savepoint is given, or no number where
                one belongs.
            ValueError: the limit is negative, or the expression does not fit the columns.
        """
        if sys.byteorder != "little":
            raise error_of("CLEANCUT_PLATFORM_UNSUPPORTED", detail="it is big-endian")
        _at_most_one("state", version=version, epoch=epoch, savepoint=savepoint)
        _require_numbers(operator=operator, version=version, epoch=epoch, partition=partition)
        history = History(self._root)
        if savepoint is not None:
            pinned = history.savepoint(savepoint)
            stored = history.of(pinned, operator, store, partition=partition)
        else:
            stored = history.at(operator, store, version, epoch, partition=partition)
        if partition is not None:
            of = f"operator={operator} store={store}"
            history.require(stored.partitions, partition, "partition", of)
        chosen = stored.partitions if partition is None else [partition]
        selected = Selection(limit, where, *([] if columns is None else [columns]))
        return batch_reader(history, stored, chosen, family, selected)

    def lookup(
        self,
        operator: int,
        key: object,
        *,
        store: str = "default",
        family: str = "default",
        at: int | str | None = None,
    ) -> pa.Table:
        """What one key has in one operator's state, without reading the rest.

        The requests that it takes grow neither with the state nor with its history: one listing,
        the cut with what leads to the key's partition, the deltas since the partition's last base
        together, and one block of that base; and, for the columns of the key, the deltas of the
        first partition. Where it is not known by what Spark divides the rows of an operator (joins
        of state format 4, keys with a collation), and where the state has been spread over other
        partitions, it looks into each so.

        Args:
            operator: Spark's operator id.
            key: the values of the key's columns, as a mapping by their names or as a sequence in
                their order; of a key of one column its value. Types are those of Python that
                PyArrow takes for the column; a window is a mapping or a pair.
            store: Spark's name of the store.
            family: the column family; `families` lists them.
            at: the epoch after which the state is, or the name of a savepoint; None is the last.

        Returns:
            A table with the columns of `state`: one row, several where the key has a list of
            values, none where it is not there.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND, CLEANCUT_COLUMN_UNREADABLE or
                CLEANCUT_FORMAT_UNKNOWN.
            CorruptedError: what is read is damaged, misplaced or missing.
            TypeError: the key does not fit its columns, or the state is neither a number nor a
                name.
        """
        _require_numbers(operator=operator)
        _require_states(at=at)
        history = History(self._root)
        stored = history.named(at).of(operator, store)
        return rows_of_key(history, self._root.checkpoint, stored, operator, family, key)

    def diff(self, before: int | str, after: int | str | None = None) -> InfoList[DiffInfo]:
        """How many keys two states differ in, by operator, store and column family.

        Only the keys that changed in between are held in memory where the later state goes on from
        the frames of the earlier one; else the earlier state of a partition is. Rows in flight are
        not compared.

        Args:
            before: the epoch after which the earlier state is, or the name of a savepoint.
            after: likewise of the later state; None is the last.

        Returns:
            A line for each family in which something differs.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND or CLEANCUT_FORMAT_UNKNOWN.
            CorruptedError: a cut or a frame that is read is damaged, misplaced or missing.
            TypeError: a state is neither a number nor a name.
        """
        old, new = self._two_states(before, after)
        found = InfoList[DiffInfo]()
        for name in sorted(old.names | new.names):
            versions = (
                state.of(*name) if name in state.names else NoVersion() for state in (old, new)
            )
            found += summed(*name, *versions)
        return found

    def changes(
        self,
        operator: int,
        before: int | str,
        after: int | str | None = None,
        *,
        store: str = "default",
        family: str = "default",
    ) -> pa.RecordBatchReader:
        """The keys in which two states of one operator differ, batch by batch.

        Args:
            operator: Spark's operator id.
            before: the epoch after which the earlier state is, or the name of a savepoint.
            after: likewise of the later state; None is the last.
            store: Spark's name of the store.
            family: the column family; `families` lists them.

        Returns:
            A reader of batches with the columns `change` ("added", "changed" or "removed"), `key`,
            `before` and `after` (structs, or lists of them where a key has a list of values; null
            where the key is not there) and `partition`.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND, CLEANCUT_COLUMN_UNREADABLE or
                CLEANCUT_FORMAT_UNKNOWN.
            CorruptedError: a cut or a frame that is read is damaged, misplaced or missing.
            TypeError: a state is neither a number nor a name.
        """
        _require_numbers(operator=operator)
        old, new = self._two_states(before, after)
        return change_reader(old.history, old.of(operator, store), new.of(operator, store), family)

    def _two_states(
        self, before: int | str, after: int | str | None
    ) -> tuple[NamedState, NamedState]:
        if before is None:
            raise _no_state("before", before)
        _require_states(before=before, after=after)
        history = History(self._root)
        return history.named(before), history.named(after)

    def skew(self, at: int | str | None = None) -> InfoList[SkewInfo]:
        """How unevenly state lies over partitions, the most uneven stores first.

        No frame is read: sizes are those of the frames, as they are stored.

        Args:
            at: the epoch after which the state is, or the name of a savepoint; None is the last.
                Without cuts it is all that is there.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND.
            CorruptedError: a cut is damaged.
            TypeError: the state is neither a number nor a name.
        """
        _require_states(at=at)
        return InfoList(skew_infos(History(self._root).named(at).sizes.items()))

    def in_flight(self, operator: int, *, side: int = 0, at: int | str | None = None) -> pa.Table:
        """The rows that an unaligned cut holds in flight to an operator, in their order.

        Args:
            operator: Spark's operator id.
            side: which of its inputs; a join has 0 and 1.
            at: the epoch, or the name of a savepoint; None is the last.

        Returns:
            A table with the columns `row` (a struct, as the exchange made it), `number` (int64, by
            which the rows of a partition come) and `partition` (int32); without rows where none
            are in flight there.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND, there is no such cut;
                CLEANCUT_COLUMN_UNREADABLE or CLEANCUT_FORMAT_UNKNOWN.
            CorruptedError: a cut or a frame that is read is damaged, misplaced or missing.
            TypeError: the state is neither a number nor a name.
        """
        _require_numbers(operator=operator, side=side)
        _require_states(at=at)
        history = History(self._root)
        cut = history.named_cut(at)
        name = f"{CHANNEL_PREFIX}{side}"
        if not cut.chains_of(operator, name):
            return NO_ROWS_IN_FLIGHT.empty_table()
        stored = history.of(cut, operator, name)
        return rows_in_flight(history, stored)

    def families(
        self, operator: int, *, store: str = "default", version: int | None = None
    ) -> InfoList[FamilyInfo]:
        """The column families of one operator's state, and how many keys each has.

        Args:
            operator: Spark's operator id.
            store: Spark's name of the store.
            version: the state version; None is as in `state`.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND or CLEANCUT_FORMAT_UNKNOWN.
            CorruptedError: a frame that the version needs is damaged, misplaced or missing.
        """
        _require_numbers(operator=operator, version=version)
        stored = History(self._root).at(operator, store, version)
        return InfoList(family_infos(loaded.state for loaded in stored.load(stored.partitions)))

    def verify(self) -> VerifyReport:
        """Reads every byte, and puts every version together that can be loaded.

        Checked are the checksums of cuts, pages, segments and frames, that all that a cut leads to
        is there, the identity of each frame against its name, the chain from each version to its
        base, the counts in the trailers, and each base against the deltas that lead to it; and the
        files that Spark itself goes on from: that they are there, can be read, are where they were
        written, and say what the cuts say. Damage is collected in the report, never raised. The
        states of a few partitions at a time are held in memory, beside 256 MiB of what was read
        ahead.

        Raises:
            RetryableError: the object store cannot answer.
            RequestError: it refuses to answer.
        """
        return verify(self._root)

    def drill(self, at: int | str | None = None, *, note: bool = True) -> DrillInfo:
        """Proves that a cut can be restored: reads and decodes all that a restart would read.

        Every frame of the cut is read, put together and compared with its checksums and counts,
        every row is decoded by its schema, and, of the last cut, Spark's own files are checked that
        a restart goes on from. Unlike `verify` it reads one cut and no others. The query may run
        meanwhile. The states of a few partitions at a time are held in memory.

        Args:
            at: the epoch of the cut, or the name of a savepoint; None is the last.
            note: whether a small object in the checkpoint says so, which `proofs` tells of; the
                last 16 stay.

        Raises:
            CorruptedError: what is wrong, the first that is found.
            RequestError: CLEANCUT_STATE_NOT_FOUND, there is no such cut, or another provider keeps
                its state; CLEANCUT_COLUMN_UNREADABLE or CLEANCUT_FORMAT_UNKNOWN.
            TypeError: the cut is neither a number nor a name.
        """
        _require_states(at=at)
        return drill(self._root, at, note=note)

    def proofs(self) -> InfoList[DrillInfo]:
        """What drills have proven, by epoch; the last line is what is known to be restorable."""
        return InfoList(proofs(self._root))

    def pin(self, name: str, epoch: int | None = None) -> int:
        """Keeps a cut, and all that it needs, under a name until it is given up: a savepoint.

        The query may run meanwhile, anywhere. It costs one small object, whatever the state.

        Args:
            name: 1 to 64 letters, digits, dashes and underscores; one that no savepoint has. To
                pin the same cut once more changes nothing.
            epoch: Spark's batch id; None is the last that has a cut.

        Returns:
            The epoch of the cut.

        Raises:
            RequestError: CLEANCUT_SAVEPOINT_INVALID.
            CorruptedError: the cut is damaged.
        """
        _require_numbers(epoch=epoch)
        return pin(self._root, name, epoch)

    def unpin(self, name: str) -> bool:
        """Gives a savepoint up. Returns whether there was one of this name.

        What no cut needs then goes with the next sweep of the query, or with `sweep`.
        """
        return unpin(self._root, name)

    def replicate(
        self,
        into: str | os.PathLike[str],
        *,
        note: bool = True,
        **access: Unpack[S3Options],
    ) -> ReplicaInfo:
        """Brings a copy of the checkpoint in another place up to the last cut, in one pass.

        The query may run meanwhile, anywhere. Called again and again it keeps the copy a few cuts
        after it: each pass copies what is new, and takes away what the checkpoint has given up.
        What a cut leads to is copied before it, so the copy is a checkpoint at any moment, also
        where a pass was killed: a query that is started with it as its checkpoint location goes on
        after the last cut there, and from then on no pass touches it.

        Args:
            into: the location of the copy, a path or a URL as the checkpoint's.
            note: whether a small object in this checkpoint says how far the copy has come, which
                `replicas` and the status of the query tell. Without it this one is only read.
            access: how the bucket of the copy is reached, if it is on `s3://`: `S3Options`. Each
                side has an endpoint and credentials of its own.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND, there are no cuts; CLEANCUT_REPLICA_DIVERGED,
                something else is there; or what the stores refuse.
            RetryableError: a store cannot answer now.
            CorruptedError: the last cut is damaged.
        """
        text = os.fspath(into)
        place = objects_at(text, "", S3Access(access))
        location = text.rstrip("/") if "://" in text else os.path.abspath(text)  # noqa: PTH100
        return replicate(self._root, place, location, note=note)

    def replicas(self) -> InfoList[ReplicaStatus]:
        """The copies that passes keep up, and how far the last pass of each has come.

        Raises:
            CorruptedError: the last cut is damaged.
        """
        notes = list(replica_notes(self._root))
        history = History(self._root)
        last = history.cut(None) if notes and history.epochs else None
        at = (None, None) if last is None else (last.epoch, last.written_ms)
        return InfoList(replica_statuses(notes, *at))

    def fence(self, why: str) -> int:
        """Ends the run of the query that owns the checkpoint, before its next commit.

        It takes the next generation, as another driver would; the run stops with CLEANCUT_FENCED
        and this text. For a fail-over to a copy, where the old side can be reached.

        Args:
            why: what its error tells.

        Returns:
            The generation.
        """
        return fence(self._root, why)

    def restore_metadata(self) -> str:
        """Writes Spark's file `metadata` anew where it is lost, from the last sound cut.

        It holds the id of the query alone. Without it a restart fails with
        CLEANCUT_METADATA_MISSING. A file that is there stays as it is.

        Returns:
            The id of the query.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND, no cut holds the id.
            CorruptedError: CLEANCUT_CUT_CORRUPTED, the file is there with another id.
        """
        return restore_metadata(self._root)

    def __repr__(self) -> str:
        return f"Checkpoint({self.location!r})"


def _at_most_one(method: str, **given: object) -> None:
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise TypeError(f"{method} takes only one of {' and '.join(named)}")


def _require_states(**given: object) -> None:
    for name, value in given.items():
        is_known = value is None or isinstance(value, str) or hasattr(value, "__index__")
        if not is_known or isinstance(value, bool):
            raise _no_state(name, value)


def _no_state(name: str, value: object) -> TypeError:
    return TypeError(f"{name} is an epoch or the name of a savepoint, and not {value!r}")


def _require_numbers(**given: object) -> None:
    for name, value in given.items():
        if value is not None and not hasattr(value, "__index__"):
            raise TypeError(f"{name} is a number, such as 0, and not {value!r}")
