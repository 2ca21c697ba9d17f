"""Sinks for lake tables: executors write files, and a commit to the table's own log adds them."""

import json
import logging
import secrets
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from cleancut._display.info_list import InfoList
from cleancut.errors import CleancutError, RequestError, error_of
from cleancut.sinks._core import ledger
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.database import Reached, Result, within
from cleancut.sinks._core.epoch_sink import EpochSink
from cleancut.sinks._core.ledger import KEPT_EPOCHS, LedgerEpoch
from cleancut.sinks._core.ledger_errors import UndoRefusedError, error_for, undo_refused
from cleancut.sinks._core.query_side import QuerySide
from cleancut.sinks._files.directory import bytes_of
from cleancut.sinks._lakes.files import Staged, StagedFile, Stager, TableFiles, epoch_directory
from cleancut.sinks._lakes.log import (
    Entry,
    LakeLog,
    PastEpoch,
    Placed,
    chain,
    find_epoch,
    handles_of,
    last_of,
    owned_head,
    past,
    publishing,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_LOG = logging.getLogger("cleancut.sinks")
_MOST_TASKS = 100_000


class LakeTable(LakeLog, Protocol):
    """A table at one version.

    Each change is one commit that contains an entry, and fails if the table has changed since. So a
    writer that reads the entries and then commits cannot interleave with another one.
    """

    def unwritable(self) -> str | None:
        """A table feature that the sink does not support; None if there is none."""

    def problem(self, schema: "StructType") -> str | None:
        """The reason why rows with these columns cannot be written; None if they can."""

    def stager(self, directory: str, schema: "StructType", sink: str) -> "Stager":
        """Returns the stager of rows.

        Args:
            directory: staging directory, below the data directory.
            schema: schema of the rows.
            sink: name of the sink, for errors.
        """

    def files(self) -> TableFiles:
        """The directory for data."""

    def commit(self, entry: Entry, files: Sequence[StagedFile]) -> None:
        """Adds files to the table, possibly none, and the entry to its log."""

    def undo(self, entry: Entry, epochs: Sequence[PastEpoch]) -> None:
        """Undoes the changes of epochs, and adds the entry.

        Args:
            entry: the entry of this commit.
            epochs: all epochs that were published after the target of the rollback, ascending.

        Raises:
            UndoRefusedError: the changes cannot be undone.
        """


class Lake(Reached[LakeTable | None], Protocol):
    """A table as the driver connects to it; `transaction` returns None if it does not exist."""

    @property
    def label(self) -> str:
        """Its location, without secrets."""

    def create(self, schema: "StructType") -> None:
        """Creates the table, unless it exists."""


@dataclass(frozen=True)
class LakeOptions:
    """Common options of lake sinks.

    Attributes:
        create: whether a missing table is created.
        file_bytes: approximate size of the rows in a file.
        retry_for_s: seconds for which a conflict or a lost connection is retried.
    """

    create: bool
    file_bytes: int
    retry_for_s: float


def _first_recorded(entries: Sequence[Placed], epochs: Sequence[PastEpoch]) -> int:
    """The first epoch from which all published epochs are known; the log may be truncated."""
    if not entries or entries[-1].entry.previous is None:
        return 0
    return epochs[0].epoch.epoch if epochs else entries[0].entry.run.last + 1


class LakeSink(EpochSink):
    """Base of sinks for lake tables.

    An entry in the table's own log, in the commit that adds the files, publishes an epoch. A new
    run commits an entry before its first epoch. Each commit fails if the table has changed since it
    was read, so an older run cannot add anything from then on.
    """

    _kind = "LakeSink"
    # Whether staged files become files of the table.
    _files_stay = True

    def __init__(self, lake: Lake, options: LakeOptions) -> None:
        """Sets the options; connects later."""
        self._lake = lake
        self._options = options
        # The first epoch of a run that has not taken over the table, which does not exist yet.
        self._pending: QuerySide | None = None
        self._schema: StructType | None = None
        self._swept: str | None = None

    def __repr__(self) -> str:
        return f"{self._kind}({self._lake.label!r})"

    @property
    def name(self) -> str:
        """The kind of sink, and the location of the table."""
        return f"{self._kind} {self._lake.label}"

    @abstractmethod
    def _prepared(self, rows: "DataFrame") -> "DataFrame":
        """The rows to stage; refuses invalid rows."""

    @abstractmethod
    def _written(self, schema: "StructType") -> "StructType":
        """The table columns of a batch.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, a column has no type in the format.
        """

    def begin(self, side: QuerySide, session: "SparkSession") -> None:
        """Takes over the table for a run, and rolls it back with the query; see `EpochSink`.

        Raises:
            FencedError: CLEANCUT_FENCED.
            RequestError: CLEANCUT_SINK_UNDO_REFUSED; CLEANCUT_SINK_REFUSED.
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
        """
        self._schema = None
        self._pending = side
        self._take_over()

    def _take_over(self) -> None:
        side = self._pending
        if side is None:
            return
        generation = side.generation()
        owner = 0 if generation is None else generation
        if self._within(lambda table: self._begin(table, side, owner)):
            self._pending = None

    def _begin(self, table: LakeTable | None, side: QuerySide, owner: int) -> bool:
        batch = side.batch
        if table is None:
            self._check_lost(batch)
            return False
        unwritable = table.unwritable()
        if unwritable is not None:
            raise self.refusal(unwritable)
        head = table.head(batch.query_id)
        recorded = None if head is None else head.entry.run
        operations = () if recorded is None else side.operations(recorded.position)
        is_moved = recorded is not None and recorded.checkpoint != batch.checkpoint
        is_compared = bool(operations) or is_moved
        entries = list(islice(chain(table, head), 2 * KEPT_EPOCHS)) if is_compared else []
        epochs = list(reversed(list(past(entries))))
        first = _first_recorded(entries, epochs)
        decided = ledger.begin(
            recorded, epochs, batch, owner, operations, first=first, expected=self._expected(batch)
        )
        match decided:
            case ledger.Begin(run) | ledger.Undo(run):
                if run == recorded:
                    return True
            case denial:
                raise error_for(denial, batch, self.name)
        entry = Entry(
            batch.query_id,
            run,
            previous=None if head is None else head.at,
            latest=None if head is None else head.entry.latest,
        )
        if isinstance(decided, ledger.Begin):
            table.commit(entry, ())
            return True
        later = [past_epoch for past_epoch in epochs if past_epoch.epoch in decided.epochs]
        latest = last_of(epochs, decided.bound)
        try:
            table.undo(replace(entry, undone_after=decided.bound, latest=latest), later)
        except UndoRefusedError as problem:
            raise undo_refused(problem, decided.epochs, decided.bound, batch, self.name) from None
        return True

    def published(self, batch: Batch) -> str | None:
        """The handle of the epoch in the table's log; see `EpochSink`."""
        epoch = self._in_run(batch, lambda table: self._look_up(table, batch))
        return None if epoch is None else Staged(epoch.handle).encode()

    def _check_lost(self, batch: Batch) -> None:
        """Refuses a table that does not exist although the checkpoint records epochs of it."""
        lost = ledger.find_lost(None, batch, self._expected(batch))
        if lost is not None:
            raise error_for(lost, batch, self.name)

    def leaves_record(self, handle: str) -> bool:
        """Epochs without rows have no commit; see `EpochSink`."""
        return bool(Staged.decode(handle).rows)

    def can_publish(self, handle: str, batch: Batch, published: str | None) -> bool:
        """Whether all staged files exist; see `EpochSink`."""
        staged = Staged.decode(handle)
        if published is not None:
            return staged.token == Staged.decode(published).token
        paths = [file.path for file in staged.files]

        def is_whole(table: LakeTable | None) -> bool:
            if table is None or self._pending is not None:
                return False
            return table.files().sizes(paths) == [file.bytes for file in staged.files]

        return bool(self._within(is_whole))

    def stage(self, rows: "DataFrame", batch: Batch) -> str:
        """Has the executors write the files; returns their handle.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, the table does not accept the rows. Nothing is
                written then.
        """
        schema = self._written(rows.schema)
        self._check(schema)
        self._take_over()
        token = secrets.token_hex(16)
        prepared = self._prepared(rows)

        def stager(table: LakeTable | None) -> Stager:
            directory = f"{epoch_directory(batch)}/{token}"
            return self._there(table).stager(directory, prepared.schema, self.name)

        stage: Stager = self._within(stager)
        written = stage(prepared.coalesce(self._tasks(rows)))
        return Staged(token, tuple(written)).encode()

    def _tasks(self, rows: "DataFrame") -> int:
        """Maximum number of writing tasks, which avoids many small files."""
        size = bytes_of(rows)
        # For rows that are not cached, Spark overestimates the size.
        return min(max(1, -(-size // self._options.file_bytes)), _MOST_TASKS)

    def publish(self, handle: str, batch: Batch) -> None:
        """Commits the files and the entry of the epoch; see `EpochSink`.

        Raises:
            RetryableError: CLEANCUT_SINK_UNREACHABLE; also if other writers change the table
                constantly.
        """
        staged = Staged.decode(handle)
        # An empty commit would only be one more for readers to process.
        if staged.rows:
            self._in_run(batch, lambda table: self._publish(self._there(table), staged, batch))
        if not self._files_stay:
            # The rows are in other files now.
            place = f"{epoch_directory(batch)}/{staged.token}"
            try:
                self._within(lambda table: self._there(table).files().delete(place))
            except Exception as failure:  # any error: the epoch is published
                _LOG.warning("%s: %s could not be deleted: %s", self.name, place, failure)

    def _in_run(self, batch: Batch, work: Callable[[LakeTable | None], Result]) -> Result:
        """As `_within`; the error names the epochs if the table was dropped or restored."""
        try:
            result: Result = self._within(work)
        except RequestError as refusal:
            if refusal.error_id == "CLEANCUT_SINK_REFUSED":
                # Reads the table again.
                self._within(lambda table: self._look_up(table, batch))
            raise
        return result

    def _look_up(self, table: LakeTable | None, batch: Batch) -> LedgerEpoch | None:
        if table is None:
            self._check_lost(batch)
            return None
        return find_epoch(table, batch, self.name, self._expected(batch))

    def _publish(self, table: LakeTable, staged: Staged, batch: Batch) -> None:
        head = owned_head(table, batch, self.name)
        if find_epoch(table, batch, self.name, self._expected(batch)) is None:
            self._commit(
                table, publishing(head, batch, staged.token, staged.rows, self.name), staged
            )

    def _commit(self, table: LakeTable, entry: Entry, staged: Staged) -> None:
        table.commit(entry, staged.files)

    def clean_up(self, batch: Batch) -> None:
        """Deletes files of other attempts of a run's first epoch; see `EpochSink`.

        Files of unknown attempts remain until the format's own removal of orphan files.
        """
        if self._swept == batch.run_id:
            return

        def clean(table: LakeTable | None) -> None:
            if table is None:
                return
            head = table.head(batch.query_id)
            if head is None or head.entry.run.run_id != batch.run_id:
                return
            files = table.files()
            known = handles_of(table, head, batch.epoch) if self._files_stay else []
            if known is None:
                # The directories may contain files of the table.
                return
            kept = {f"{epoch_directory(batch)}/{handle}" for handle in known}
            for directory in files.directories(epoch_directory(batch)):
                if directory not in kept:
                    files.delete(directory)

        try:
            self._within(clean)
        except CleancutError as failure:
            _LOG.warning("%s: leftover files could not be deleted: %s", self.name, failure)
        self._swept = batch.run_id

    def epochs(self, query_id: str) -> InfoList[LedgerEpoch]:
        """The published epochs of a query, as far back as the table's log goes.

        Args:
            query_id: Spark's query id.

        Raises:
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
            RequestError: CLEANCUT_SINK_REFUSED, the table does not exist.
        """

        def read_epochs(table: LakeTable | None) -> list[LedgerEpoch]:
            existing = self._there(table)
            entries = islice(chain(existing, existing.head(query_id)), 2 * KEPT_EPOCHS)
            return [past_epoch.epoch for past_epoch in past(entries) if not past_epoch.is_undone]

        return InfoList(reversed(self._within(read_epochs)))

    def mark_unpublished(self, query_id: str, after: int) -> int:
        """Marks the epochs after one as unpublished, after you have undone their rows.

        For a query that rolled back further than the sink could undo. The query must not run.

        Args:
            query_id: Spark's query id.
            after: the last epoch that remains published; -1 marks all.

        Returns:
            The number of marked epochs, of those that the log records.
        """

        def work(table: LakeTable | None) -> int:
            existing = self._there(table)
            head = existing.head(query_id)
            if head is None or head.entry.run.last <= after:
                return 0
            known = list(past(islice(chain(existing, head), 2 * KEPT_EPOCHS)))
            entry = replace(
                head.entry,
                run=replace(head.entry.run, last=after),
                previous=head.at,
                epoch=None,
                undone_after=after,
                latest=last_of(known, after),
            )
            existing.commit(entry, ())
            return len(
                [
                    past_epoch
                    for past_epoch in known
                    if not past_epoch.is_undone and past_epoch.epoch.epoch > after
                ]
            )

        return int(self._within(work))

    def _check(self, schema: "StructType") -> None:
        """Compares the columns of a batch with those of the table; creates it if required."""
        if schema == self._schema:
            return

        def problem(table: LakeTable | None) -> str | None:
            return None if table is None else table.problem(schema)

        is_there = self._within(lambda table: table is not None)
        if not is_there:
            if not self._options.create:
                raise self.refusal("the table does not exist, and create is False")
            self._within(lambda _: self._lake.create(schema))
        reason = self._within(problem)
        if reason is not None:
            raise self.refusal(reason)
        self._schema = schema

    def _within(self, work: Any) -> Any:
        return within(self._lake, self._options.retry_for_s, work, self.name)

    def _there(self, table: LakeTable | None) -> LakeTable:
        if table is None:
            raise self.refusal("the table does not exist")
        return table

    def refusal(self, reason: str) -> Exception:
        """The error for rows or options that are refused."""
        return error_of("CLEANCUT_SINK_REFUSED", sink=self.name, reason=reason)


def refused_types(schema: "StructType", named: "dict[str, str | None]") -> str | None:
    """The columns that have no type in the format; None if there are none."""
    lost = [
        f"{field.name} ({field.dataType.simpleString()})"
        for field in schema.fields
        if named[field.name] is None
    ]
    if lost:
        return f"it has no type for these columns: {', '.join(lost)}; cast or drop them"
    duplicates = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if duplicates:
        return f"the batch has several columns of these names: {', '.join(duplicates)}"
    return None


def unlike(batch: "dict[str, str]", table: "dict[str, str]", required: Sequence[str]) -> str | None:
    """The difference between the columns of a batch and of a table; None if it accepts them.

    Args:
        batch: type of each column of the batch.
        table: type of each column of the table.
        required: columns of the table that accept no nulls.
    """
    more = sorted(set(batch) - set(table))
    if more:
        return f"the table has no columns {', '.join(more)}; add them to it, or drop them"
    missing = [name for name in required if name not in batch]
    if missing:
        return f"the table requires values of these columns: {', '.join(missing)}"
    other = [
        f"{name} is {kind}, and {table[name]} in the table"
        for name, kind in batch.items()
        if kind != table[name]
    ]
    return "; ".join(other) or None


def entry_text(entry: Entry) -> str:
    """An entry as text."""
    return json.dumps(entry.fields(), separators=(",", ":"))
