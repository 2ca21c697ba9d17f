"""Reads the state of a query's checkpoint, without a JVM."""

import os
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Unpack

import pyarrow as pa
import pyarrow.compute as pc

from cleancut._checkpoint.operations import Operations
from cleancut._checkpoint.owners import OwnerInfo, owner_infos
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
from cleancut._checkpoint.read.history_files import read_history
from cleancut._checkpoint.read.prices import PRICES, DailyCosts, PriceList, daily_costs
from cleancut._checkpoint.read.root import objects_at, open_root
from cleancut._checkpoint.replicate.records import (
    ReplicaStatus,
    replica_notes,
    replica_statuses,
    restore_test_times,
)
from cleancut._checkpoint.replicate.replicas import ReplicaInfo, fence, replicate
from cleancut._checkpoint.retain.expiry import Expiry, collect_garbage, expire
from cleancut._checkpoint.retain.metadata import restore_metadata
from cleancut._checkpoint.retain.savepoints import create_savepoint, drop_savepoint
from cleancut._checkpoint.tables.batches import batch_reader
from cleancut._checkpoint.tables.changes import DiffInfo, change_reader, summed
from cleancut._checkpoint.tables.frames import frames_of
from cleancut._checkpoint.tables.in_flight import NO_IN_FLIGHT_ROWS, in_flight_rows
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
from cleancut._checkpoint.verify.report import VerifyReport, verify
from cleancut._checkpoint.verify.restore_test import RestoreTest, restore_tests, run_restore_test
from cleancut._display.info_list import InfoList
from cleancut._display.tables import ranges
from cleancut._format.layout import CHANNEL_PREFIX, StoreId
from cleancut._storage.access import S3Access, S3Options
from cleancut.errors import error_of


class Checkpoint(Operations):
    """The checkpoint of one query.

    Every call lists the checkpoint again, so it can read the checkpoint of a running query. State
    is read at a version: epoch *e* turns version *e* into version *e+1*. A version that has a cut
    is committed. In a checkpoint without cuts a version whose frames exist may not be committed:
    the highest may belong to an epoch that still runs.

    Corrupted, missing or exchanged objects raise CorruptedError, which names the object and the
    version; nothing is skipped. Errors of a file system are OSError, those of an object store
    RequestError or RetryableError.
    """

    def __init__(
        self,
        location: str | os.PathLike[str],
        **access: Unpack[S3Options],
    ) -> None:
        """Opens the checkpoint.

        Args:
            location: a query's `checkpointLocation`: a local path, `s3://bucket/prefix` (which
                needs the extra `cleancut[s3]`), or an `hdfs:` or `gs:` URI, which Arrow reads.
            access: how to reach the bucket of an `s3://` location: endpoint, region, access_point,
                requester_pays, encryption, profile, as in `S3Options`.

        Raises:
            RequestError: CLEANCUT_CHECKPOINT_NOT_FOUND, CLEANCUT_FORMAT_UNKNOWN,
                CLEANCUT_OBJECT_LOCATION_INVALID or CLEANCUT_FILE_SYSTEM_UNAVAILABLE; for `s3://`
                also CLEANCUT_OBJECT_STORE_REFUSED and CLEANCUT_DEPENDENCY_MISSING.
            RetryableError: CLEANCUT_OBJECT_STORE_UNAVAILABLE.
        """
        self._root = open_root(location, S3Access(access))

    @property
    def location(self) -> str:
        """The checkpoint location as it was given."""
        return self._root.location

    def cuts(self) -> InfoList[CutInfo]:
        """All cuts, ordered by epoch; empty for a checkpoint without cuts.

        Raises:
            CorruptedError: a cut is corrupted.
        """
        return InfoList(map(cut_info, History(self._root).cuts()))

    def history(self, since: int | datetime | None = None) -> EpochHistory:
        """The cost of each epoch, ordered by epoch; empty for a checkpoint without cuts.

        It includes the reason why an epoch was slow, and the time of its last restore test.

        Args:
            since: the first epoch, or the time from which epochs were committed (UTC, unless it has
                a time zone). Epochs are kept for `historyRetention`. None is all epochs whose cut
                is retained.

        Raises:
            RequestError: CLEANCUT_FORMAT_UNKNOWN.
            CorruptedError: a cut is corrupted, or CLEANCUT_HISTORY_CORRUPTED.
        """
        return EpochHistory(read_history(self._root, since, restore_test_times(self._root)))

    def cost_per_day(self, prices: Sequence[PriceList] = PRICES) -> DailyCosts:
        """Estimates the cost of the query per day, from the epochs whose cuts are retained.

        It extrapolates the requests of these epochs, by kind, to a day, and adds the bytes that are
        stored now. docs/operate/costs.md lists what object stores bill.

        Args:
            prices: price lists to use instead of the published ones.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND, there are no two consecutive cuts of one run
                with costs.
            CorruptedError: a cut is corrupted.
        """
        history = History(self._root)
        costs = daily_costs(epoch_infos(history.cuts()), self._root.stored_bytes(), prices)
        if costs is None:
            available = f"cuts of epochs {ranges(history.epochs)}" if history.epochs else "no cuts"
            raise history.not_found("two cuts of one run with costs", available)
        return costs

    def savepoints(self) -> InfoList[SavepointInfo]:
        """All savepoints, ordered by name.

        Raises:
            CorruptedError: one is corrupted.
        """
        history = History(self._root)
        names = self._root.savepoints()
        return InfoList(savepoint_info(name, history.savepoint(name)) for name in names)

    def cut(self, at: int | str | None = None) -> CutDetails:
        """The content of a cut: stores, chains, offsets, watermark, commit entry.

        Args:
            at: an epoch, or the name of a savepoint; None is the last cut.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND.
            CorruptedError: the cut is corrupted.
            TypeError: `at` is neither a number nor a name.
        """
        _require_states(at=at)
        history = History(self._root)
        cut = history.named_cut(at)
        return cut_details(cut, history.referred_sizes(cut))

    def stores(self) -> InfoList[StoreInfo]:
        """All state stores that have a frame, ordered by operator, partition and name.

        Raises:
            CorruptedError: a cut is corrupted.
        """
        history = History(self._root)
        stores, referenced = history.stores(), history.referred_sizes(history.last_cut())
        return InfoList(store_info(store, referenced) for store in stores)

    def versions(self, operator: int, partition: int, store: str = "default") -> tuple[int, ...]:
        """The versions of one store that have a frame, ascending.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND.
            CorruptedError: a cut is corrupted.
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
        """Reads all frames of one store and describes them.

        Args:
            operator: Spark's operator id.
            partition: Spark's partition id.
            store: Spark's name of the store.
            version: only the frames of this version. There may be several: a snapshot next to the
                changelog, and without cuts those of repeated attempts.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND or CLEANCUT_FORMAT_UNKNOWN.
            CorruptedError: a frame or a cut is corrupted or misplaced.
        """
        _require_numbers(operator=operator, partition=partition, version=version)
        history = History(self._root)
        frames = history.store(StoreId(operator, partition, store))
        if version is not None:
            history.require(frames.versions, version, "version", str(frames.store))
        return InfoList(map(frame_info, frames_of(frames, history.reader, version)))

    def state(
        self,
        operator: int,
        *,
        store: str = "default",
        at: int | str | None = None,
        version: int | None = None,
        partition: int | None = None,
        family: str = "default",
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """The rows of one operator's state, in one table.

        It holds all of them in memory; `state_batches`, which has the same arguments and errors,
        returns them batch by batch.
        """
        return self.state_batches(
            operator,
            store=store,
            at=at,
            version=version,
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
        at: int | str | None = None,
        version: int | None = None,
        partition: int | None = None,
        family: str = "default",
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """The rows of one operator's state, batch by batch. Only what is selected is read.

        Rows come partition by partition, those of later changes first. Otherwise their order has no
        meaning, except for the values of a list. Memory holds one batch, and the changes of a
        partition since its last snapshot. The query may run; a batch that is taken after retention
        has deleted its version raises CorruptedError.

        Args:
            operator: Spark's operator id.
            store: Spark's name of the store; a stream-stream join has several.
            at: the epoch after which the state is read, or the name of a savepoint; None is the
                last cut. Without cuts it is the greatest version that all partitions have, even if
                only one partition is read.
            version: the state version, instead of `at`.
            partition: only this partition; None is all.
            family: the column family; `families` lists them.
            columns: some of `key`, `value`, `partition`, and fields such as `key.carrier`, which
                become columns of that name; None is the first three.
            where: only rows for which this expression over `key`, `value` and `partition` holds,
                such as `pyarrow.compute.field("value", "count") > 10`.
            limit: maximum number of rows; None is all.

        Returns:
            A reader of batches with the struct columns `key` and `value`, typed by the stored
            schemas, and the int32 column `partition`. A key with a list of values (ListState) has
            one row for each value, in order. Timestamps are in UTC, in microseconds. Of several
            fields with one name, all but the first get a number appended. The metadata of the
            schema have operator, store and version.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND, CLEANCUT_COLUMN_UNREADABLE,
                CLEANCUT_FORMAT_UNKNOWN or, on a big-endian machine, CLEANCUT_PLATFORM_UNSUPPORTED.
            CorruptedError: a cut or a frame is corrupted, misplaced or missing; also when a batch
                is taken.
            TypeError: both `at` and `version` are given, or an argument has another type.
            ValueError: the limit is negative, or the expression does not fit the columns.
        """
        if sys.byteorder != "little":
            raise error_of("CLEANCUT_PLATFORM_UNSUPPORTED", detail="it is big-endian")
        if at is not None and version is not None:
            raise TypeError("state takes only one of at and version")
        _require_numbers(operator=operator, version=version, partition=partition)
        _require_states(at=at)
        history = History(self._root)
        if isinstance(at, str):
            cut = history.savepoint(at)
            stored = history.of(cut, operator, store, partition=partition)
        else:
            stored = history.at(operator, store, version, at, partition=partition)
        if partition is not None:
            what = f"operator={operator} store={store}"
            history.require(stored.partitions, partition, "partition", what)
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
        """The rows of one key in one operator's state, without reading the rest.

        The number of requests depends neither on the size of the state nor on its age: one listing,
        the cut with the pages of the key's partition, the changelogs since the partition's last
        snapshot, one block of that snapshot, and for the columns of the key the changelogs of the
        first partition. It reads every partition so if the partition of a key is unknown (joins of
        state format 4, keys with a collation), or if the state was rescaled by reference.

        Args:
            operator: Spark's operator id.
            key: the values of the key's columns, as a mapping by name or a sequence in order; for
                one column its value. PyArrow converts the Python values to the column's type. A
                window is a mapping or a pair.
            store: Spark's name of the store.
            family: the column family; `families` lists them.
            at: the epoch after which the state is read, or the name of a savepoint; None is the
                last.

        Returns:
            A table with the columns of `state`: one row, several for a list of values, none if the
            key does not exist.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND, CLEANCUT_COLUMN_UNREADABLE or
                CLEANCUT_FORMAT_UNKNOWN.
            CorruptedError: an object that is read is corrupted, misplaced or missing.
            TypeError: the key does not fit its columns, or `at` is neither a number nor a name.
        """
        _require_numbers(operator=operator)
        _require_states(at=at)
        history = History(self._root)
        stored = history.named(at).of(operator, store)
        return rows_of_key(history, self._root.checkpoint, stored, operator, family, key)

    def diff(self, before: int | str, after: int | str | None = None) -> InfoList[DiffInfo]:
        """The number of keys in which two states differ, by operator, store and column family.

        In-flight rows are not compared. If the later state continues the frames of the earlier one,
        memory holds only the keys that changed in between, else the earlier state of a partition.

        Args:
            before: the epoch after which the earlier state is read, or the name of a savepoint.
            after: the same for the later state; None is the last.

        Returns:
            An item for each family that differs.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND or CLEANCUT_FORMAT_UNKNOWN.
            CorruptedError: a cut or a frame that is read is corrupted, misplaced or missing.
            TypeError: a state is neither a number nor a name.
        """
        old, new = self._two_states(before, after)
        differing = InfoList[DiffInfo]()
        for name in sorted(old.names | new.names):
            versions = (
                state.of(*name) if name in state.names else NoVersion() for state in (old, new)
            )
            differing += summed(*name, *versions)
        return differing

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
            before: the epoch after which the earlier state is read, or the name of a savepoint.
            after: the same for the later state; None is the last.
            store: Spark's name of the store.
            family: the column family; `families` lists them.

        Returns:
            A reader of batches with the columns `change` ("added", "changed" or "removed"), `key`,
            `before` and `after` (structs, or lists of structs for keys with a list of values; null
            if the key does not exist) and `partition`.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND, CLEANCUT_COLUMN_UNREADABLE or
                CLEANCUT_FORMAT_UNKNOWN.
            CorruptedError: a cut or a frame that is read is corrupted, misplaced or missing.
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
        """The distribution of state over partitions, most uneven stores first.

        It reads no frame; sizes are those of the stored frames.

        Args:
            at: the epoch after which the state is, or the name of a savepoint; None is the last.
                Without cuts it is all that exists.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND.
            CorruptedError: a cut is corrupted.
            TypeError: `at` is neither a number nor a name.
        """
        _require_states(at=at)
        return InfoList(skew_infos(History(self._root).named(at).sizes.items()))

    def in_flight(self, operator: int, *, side: int = 0, at: int | str | None = None) -> pa.Table:
        """The in-flight rows that an unaligned cut stores for an operator, in their order.

        Args:
            operator: Spark's operator id.
            side: the input of the operator; a join has 0 and 1.
            at: the epoch, or the name of a savepoint; None is the last.

        Returns:
            A table with the columns `row` (a struct, the output of the exchange), `number` (int64,
            the order of rows in a partition) and `partition` (int32); empty if there are none.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND, the cut does not exist;
                CLEANCUT_COLUMN_UNREADABLE or CLEANCUT_FORMAT_UNKNOWN.
            CorruptedError: a cut or a frame that is read is corrupted, misplaced or missing.
            TypeError: `at` is neither a number nor a name.
        """
        _require_numbers(operator=operator, side=side)
        _require_states(at=at)
        history = History(self._root)
        cut = history.named_cut(at)
        name = f"{CHANNEL_PREFIX}{side}"
        if not cut.chains_of(operator, name):
            return NO_IN_FLIGHT_ROWS.empty_table()
        stored = history.of(cut, operator, name)
        return in_flight_rows(history, stored)

    def families(
        self, operator: int, *, store: str = "default", version: int | None = None
    ) -> InfoList[FamilyInfo]:
        """The column families of one operator's state, and the number of keys in each.

        Args:
            operator: Spark's operator id.
            store: Spark's name of the store.
            version: the state version; None as in `state`.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND or CLEANCUT_FORMAT_UNKNOWN.
            CorruptedError: a required frame is corrupted, misplaced or missing.
        """
        _require_numbers(operator=operator, version=version)
        stored = History(self._root).at(operator, store, version)
        return InfoList(family_infos(loaded.state for loaded in stored.load(stored.partitions)))

    def verify(self) -> VerifyReport:
        """Reads every byte and assembles every version that can be loaded.

        It checks the checksums of cuts, pages, segments and frames; that everything a cut
        references exists; the identity of each frame; the chain of each version; the counts in
        trailers; each snapshot against the changelogs that it replaces; and the files from which
        Spark restarts, against the cuts. Problems are collected in the report, not raised. Memory
        holds the states of a few partitions and 256 MiB of read-ahead.

        Raises:
            RetryableError: the object store is unavailable.
            RequestError: the object store refuses.
        """
        return verify(self._root)

    def test_restore(self, at: int | str | None = None, *, read_only: bool = False) -> RestoreTest:
        """Reads and decodes all that a restart from a cut would read, without starting a query.

        It reads every frame of the cut, assembles the state, compares checksums and counts, and
        decodes every row by its schema. For the last cut it also checks the files from which Spark
        restarts. Unlike `verify` it reads one cut only. The query may run. Memory holds the states
        of a few partitions.

        Args:
            at: the epoch of the cut, or the name of a savepoint; None is the last.
            read_only: write no record of the test into the checkpoint. `restore_tests` lists the
                records; the last 16 are kept.

        Raises:
            CorruptedError: the first problem.
            RequestError: CLEANCUT_STATE_NOT_FOUND, the cut does not exist or its state is of
                another provider; CLEANCUT_COLUMN_UNREADABLE or CLEANCUT_FORMAT_UNKNOWN.
            TypeError: `at` is neither a number nor a name.
        """
        _require_states(at=at)
        return run_restore_test(self._root, at, read_only=read_only)

    def restore_tests(self) -> InfoList[RestoreTest]:
        """The recorded restore tests, ordered by epoch."""
        return InfoList(restore_tests(self._root))

    def create_savepoint(self, name: str, epoch: int | None = None) -> int:
        """Creates a savepoint: retains a cut, and all objects that it references, under a name.

        The query may run, anywhere. A savepoint is one small object, whatever the size of state.

        Args:
            name: 1 to 64 letters, digits, dashes and underscores, not digits only. A second
                savepoint of the same name and cut changes nothing.
            epoch: Spark's batch id; None is the last cut.

        Returns:
            The epoch of the cut.

        Raises:
            RequestError: CLEANCUT_SAVEPOINT_INVALID.
            CorruptedError: the cut is corrupted.
        """
        _require_numbers(epoch=epoch)
        return create_savepoint(self._root, name, epoch)

    def drop_savepoint(self, name: str) -> bool:
        """Drops a savepoint. Returns whether it existed.

        The next garbage collection, of the query or by `collect_garbage`, deletes objects that only
        the savepoint referenced.
        """
        return drop_savepoint(self._root, name)

    def expire(
        self, *, retain_last: int | None = None, retain_for: timedelta | str | None = None
    ) -> Expiry:
        """Plans to delete old cuts of a stopped query, and objects that only these reference.

        The last cut is always retained, and everything that a savepoint references. At least one
        argument is required; with both, a cut is retained if either holds.

            checkpoint.expire(retain_last=10, retain_for="7d").apply()

        Args:
            retain_last: number of cuts to retain, at least 1.
            retain_for: retain cuts that are younger: a timedelta, or a text such as "7d", "36h",
                "30m" or "90s".

        Returns:
            The plan. Nothing is deleted until its `apply`.

        Raises:
            RequestError: CLEANCUT_OPERATION_REFUSED, there are no cuts, or this is a replica.
            CorruptedError: a retained cut is corrupted.
            ValueError: no argument is given, or it is invalid.
        """
        return expire(self._root, retain_last, retain_for)

    def collect_garbage(self) -> Expiry:
        """Plans to delete objects of a stopped query that no cut and no savepoint references.

        These are segments of failed task attempts and of killed operations, and those of dropped
        savepoints. All cuts are retained.

        Returns:
            The plan. Nothing is deleted until its `apply`.

        Raises:
            RequestError: as for `expire`.
            CorruptedError: a cut is corrupted.
        """
        return collect_garbage(self._root)

    def replicate(
        self,
        target: str | os.PathLike[str],
        *,
        read_only: bool = False,
        **access: Unpack[S3Options],
    ) -> ReplicaInfo:
        """Copies what is new in the checkpoint to a replica, in one pass.

        The query may run, anywhere. Repeated passes keep the replica close to it; each copies
        new objects and deletes those that the checkpoint has deleted. Objects are copied before the
        cut that references them, so the replica is a valid checkpoint at any time, even if a pass
        is killed. A query that starts on it continues after its last cut, and from then on passes
        refuse to change it.

        Args:
            target: location of the replica, a path or URL.
            read_only: write no record of the replica into this checkpoint. `replicas` and the
                status of the query list the records.
            access: how to reach the bucket of an `s3://` target: `S3Options`. Each side has its own
                endpoint and credentials.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND, there are no cuts; CLEANCUT_REPLICA_DIVERGED,
                the target has other content; or an object store refuses.
            RetryableError: an object store is unavailable.
            CorruptedError: the last cut is corrupted.
        """
        text = os.fspath(target)
        place = objects_at(text, "", S3Access(access))
        location = text.rstrip("/") if "://" in text else os.path.abspath(text)  # noqa: PTH100
        return replicate(self._root, place, location, read_only=read_only)

    def replicas(self) -> InfoList[ReplicaStatus]:
        """The recorded replicas, and the last epoch of each.

        Raises:
            CorruptedError: the last cut is corrupted.
        """
        notes = list(replica_notes(self._root))
        history = History(self._root)
        last = history.cut(None) if notes and history.epochs else None
        latest = (None, None) if last is None else (last.epoch, last.written_ms)
        return InfoList(replica_statuses(notes, *latest))

    def owners(self, last: int = 10) -> InfoList[OwnerInfo]:
        """The last runs that own the query or have owned it, ascending; a request for each."""
        return InfoList(owner_infos(self._root, last))

    def fence(self, reason: str) -> int:
        """Stops the run that owns the checkpoint, before its next commit.

        It takes the next generation, as another driver would. The run stops with CLEANCUT_FENCED
        and the reason. For a failover to a replica while the old side is reachable.

        Args:
            reason: text for the error of that run.

        Returns:
            The generation.
        """
        return fence(self._root, reason)

    def restore_metadata(self) -> str:
        """Restores Spark's file `metadata`, which has the query id, from the last readable cut.

        Without that file a restart fails with CLEANCUT_METADATA_MISSING. An existing file is not
        changed.

        Returns:
            The query id.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND, no cut has the id.
            CorruptedError: CLEANCUT_CUT_CORRUPTED, the file exists with another id.
        """
        return restore_metadata(self._root)

    def __repr__(self) -> str:
        return f"Checkpoint({self.location!r})"


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
