"""A table of a lake that takes epochs: executors write files, the table's own log names them."""

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
    found_in,
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
    """A table as it is at one moment.

    Each change is one commit, of which an entry is part, and which fails unless the table is still
    as it was. So whoever has looked at the entries, and then commits, comes between nobody.
    """

    def unwritable(self) -> str | None:
        """What the table has that is not written right here; None if there is nothing."""

    def problem(self, schema: "StructType") -> str | None:
        """Why rows with these columns cannot be written; None if they can."""

    def stager(self, directory: str, schema: "StructType", sink: str) -> "Stager":
        """What has the executors write rows.

        Args:
            directory: below that for data, for what is not the table's yet.
            schema: of the rows.
            sink: for errors.
        """

    def files(self) -> TableFiles:
        """The directory for data."""

    def commit(self, entry: Entry, files: Sequence[StagedFile]) -> None:
        """Adds files to the table, or none, and the entry to its log."""

    def undo(self, entry: Entry, epochs: Sequence[PastEpoch]) -> None:
        """Takes back what epochs have changed, and adds the entry.

        Args:
            entry: of this commit.
            epochs: all that were published after the one that is gone back to, ascending.

        Raises:
            UndoRefusedError: it cannot.
        """


class Lake(Reached[LakeTable | None], Protocol):
    """Where a table is, as the driver reaches it; `transaction` gives None where there is none."""

    @property
    def label(self) -> str:
        """Its place, without a secret."""

    def create(self, schema: "StructType") -> None:
        """Makes the table, unless there is one by then."""


@dataclass(frozen=True)
class LakeOptions:
    """What lakes have in common.

    Attributes:
        create: whether the table is made if it is not there.
        file_bytes: how much of the rows that Spark keeps goes into a file, about.
        retry_for_s: for how many seconds a conflict or a lost connection is met by another try.
    """

    create: bool
    file_bytes: int
    retry_for_s: float


def _first_recorded(entries: Sequence[Placed], epochs: Sequence[PastEpoch]) -> int:
    """The first epoch from which on all published epochs are known; the log may be truncated."""
    if not entries or entries[-1].entry.previous is None:
        return 0
    return epochs[0].epoch.epoch if epochs else entries[0].entry.run.last + 1


class LakeSink(EpochSink):
    """What sinks for tables of lakes have in common.

    An entry in the table's own log, in the commit that adds the files, says that an epoch is
    published. When a run begins, it commits an entry, too; as each commit fails unless the table
    is as it was looked at, an older run adds nothing from then on.
    """

    _kind = "LakeSink"
    # Whether the files that are staged become those of the table.
    _files_stay = True

    def __init__(self, lake: Lake, options: LakeOptions) -> None:
        """Names the table; nothing is looked at yet."""
        self._lake = lake
        self._options = options
        # The first epoch of a run that has not taken the table over, as it is not there yet.
        self._pending: QuerySide | None = None
        self._schema: StructType | None = None
        self._swept: str | None = None

    def __repr__(self) -> str:
        return f"{self._kind}({self._lake.label!r})"

    @property
    def name(self) -> str:
        """The kind of sink, and the place of the table."""
        return f"{self._kind} {self._lake.label}"

    @abstractmethod
    def _prepared(self, rows: "DataFrame") -> "DataFrame":
        """The rows that are to be staged; refuses those that cannot be."""

    @abstractmethod
    def _written(self, schema: "StructType") -> "StructType":
        """The columns of the table that a batch has.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, there is no type for one of them.
        """

    def begin(self, side: QuerySide, session: "SparkSession") -> None:
        """Takes the table over for a run, and goes back with the query; see `EpochSink`.

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
        acts = () if recorded is None else side.acts(recorded.position)
        is_moved = recorded is not None and recorded.checkpoint != batch.checkpoint
        is_compared = bool(acts) or is_moved
        entries = list(islice(chain(table, head), 2 * KEPT_EPOCHS)) if is_compared else []
        epochs = list(reversed(list(past(entries))))
        first = _first_recorded(entries, epochs)
        decided = ledger.begin(
            recorded, epochs, batch, owner, acts, first=first, expected=self._expected(batch)
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
        later = [of for of in epochs if of.epoch in decided.epochs]
        latest = last_of(epochs, decided.bound)
        try:
            table.undo(replace(entry, undone_after=decided.bound, latest=latest), later)
        except UndoRefusedError as problem:
            raise undo_refused(problem, decided.epochs, decided.bound, batch, self.name) from None
        return True

    def published(self, batch: Batch) -> str | None:
        """What the table's log has of the epoch; see `EpochSink`."""
        found = self._in_run(batch, lambda table: self._look_up(table, batch))
        return None if found is None else Staged(found.handle).encode()

    def _check_lost(self, batch: Batch) -> None:
        """Refuses a table that does not exist although the checkpoint records epochs of it."""
        lost = ledger.find_lost(None, batch, self._expected(batch))
        if lost is not None:
            raise error_for(lost, batch, self.name)

    def leaves_record(self, handle: str) -> bool:
        """Epochs without rows have no commit; see `EpochSink`."""
        return bool(Staged.decode(handle).rows)

    def can_publish(self, handle: str, batch: Batch, published: str | None) -> bool:
        """Whether all files are there that were staged; see `EpochSink`."""
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
        """Has the executors write the files; gives what is to be said of them in the log.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, the table does not take these rows; before anything
                is written.
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
        """How many tasks write at most, so that they do not write many small files."""
        size = bytes_of(rows)
        # Of rows that are not kept Spark guesses more than there can be.
        return min(max(1, -(-size // self._options.file_bytes)), _MOST_TASKS)

    def publish(self, handle: str, batch: Batch) -> None:
        """Commits the files and the entry of the epoch; see `EpochSink`.

        Raises:
            RetryableError: CLEANCUT_SINK_UNREACHABLE; also where others change the table all the
                time.
        """
        staged = Staged.decode(handle)
        # A commit that changes nothing would be one more for readers to go through.
        if staged.rows:
            self._in_run(batch, lambda table: self._publish(self._there(table), staged, batch))
        if not self._files_stay:
            # The rows are in other files now.
            place = f"{epoch_directory(batch)}/{staged.token}"
            try:
                self._within(lambda table: self._there(table).files().delete(place))
            except Exception as failure:  # whatever the store says: the epoch is published
                _LOG.warning("%s: %s could not be deleted: %s", self.name, place, failure)

    def _in_run(self, batch: Batch, work: Callable[[LakeTable | None], Result]) -> Result:
        """As `_within`; names the epochs of a table that was dropped or restored meanwhile."""
        try:
            result: Result = self._within(work)
        except RequestError as refusal:
            if refusal.error_id == "CLEANCUT_SINK_REFUSED":
                # It is read again.
                self._within(lambda table: self._look_up(table, batch))
            raise
        return result

    def _look_up(self, table: LakeTable | None, batch: Batch) -> LedgerEpoch | None:
        if table is None:
            self._check_lost(batch)
            return None
        return found_in(table, batch, self.name, self._expected(batch))

    def _publish(self, table: LakeTable, staged: Staged, batch: Batch) -> None:
        head = owned_head(table, batch, self.name)
        if found_in(table, batch, self.name, self._expected(batch)) is None:
            self._commit(
                table, publishing(head, batch, staged.token, staged.rows, self.name), staged
            )

    def _commit(self, table: LakeTable, entry: Entry, staged: Staged) -> None:
        table.commit(entry, staged.files)

    def clean_up(self, batch: Batch) -> None:
        """Deletes what other tries of the first epoch of a run have left; see `EpochSink`.

        What it cannot know of is left to the removal of files that no table names, which each
        format has for all of its writers.
        """
        if self._swept == batch.run_id:
            return

        def look(table: LakeTable | None) -> None:
            if table is None:
                return
            head = table.head(batch.query_id)
            if head is None or head.entry.run.run_id != batch.run_id:
                return
            files = table.files()
            known = handles_of(table, head, batch.epoch) if self._files_stay else []
            if known is None:
                # What is there may be files of the table.
                return
            kept = {f"{epoch_directory(batch)}/{of}" for of in known}
            for directory in files.directories(epoch_directory(batch)):
                if directory not in kept:
                    files.delete(directory)

        try:
            self._within(look)
        except CleancutError as failure:
            _LOG.warning("%s: what was left could not be deleted: %s", self.name, failure)
        self._swept = batch.run_id

    def epochs(self, query_id: str) -> InfoList[LedgerEpoch]:
        """The epochs of a query that the table has taken, as far as its log goes back.

        Args:
            query_id: Spark's id of it.

        Raises:
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
            RequestError: CLEANCUT_SINK_REFUSED, there is no table.
        """

        def look(table: LakeTable | None) -> list[LedgerEpoch]:
            of = self._there(table)
            entries = islice(chain(of, of.head(query_id)), 2 * KEPT_EPOCHS)
            return [found.epoch for found in past(entries) if not found.is_undone]

        return InfoList(reversed(self._within(look)))

    def mark_unpublished(self, query_id: str, after: int) -> int:
        """Takes the epochs after one for not published, whose rows you have taken back.

        For a query that went back behind what the sink could undo. The query must not run.

        Args:
            query_id: Spark's id of it.
            after: the epoch that stays the last one; -1 forgets all.

        Returns:
            How many epochs these were, of those that the log remembers.
        """

        def work(table: LakeTable | None) -> int:
            of = self._there(table)
            head = of.head(query_id)
            if head is None or head.entry.run.last <= after:
                return 0
            known = list(past(islice(chain(of, head), 2 * KEPT_EPOCHS)))
            entry = replace(
                head.entry,
                run=replace(head.entry.run, last=after),
                previous=head.at,
                epoch=None,
                undone_after=after,
                latest=last_of(known, after),
            )
            of.commit(entry, ())
            return len(
                [found for found in known if not found.is_undone and found.epoch.epoch > after]
            )

        return int(self._within(work))

    def _check(self, schema: "StructType") -> None:
        """Compares the columns of a batch with those of the table, which is made if it must be."""
        if schema == self._schema:
            return

        def problem(table: LakeTable | None) -> str | None:
            return None if table is None else table.problem(schema)

        is_there = self._within(lambda table: table is not None)
        if not is_there:
            if not self._options.create:
                raise self.refusal("there is no such table, and create is False")
            self._within(lambda _: self._lake.create(schema))
        found = self._within(problem)
        if found is not None:
            raise self.refusal(found)
        self._schema = schema

    def _within(self, work: Any) -> Any:
        return within(self._lake, self._options.retry_for_s, work, self.name)

    def _there(self, table: LakeTable | None) -> LakeTable:
        if table is None:
            raise self.refusal("there is no such table")
        return table

    def refusal(self, reason: str) -> Exception:
        """The error for what cannot be written, and why."""
        return error_of("CLEANCUT_SINK_REFUSED", sink=self.name, reason=reason)


def refused_types(schema: "StructType", named: "dict[str, str | None]") -> str | None:
    """Which columns have no type in the format; None if all have."""
    lost = [
        f"{of.name} ({of.dataType.simpleString()})"
        for of in schema.fields
        if named[of.name] is None
    ]
    if lost:
        return f"it has no type for these columns: {', '.join(lost)}; cast or drop them"
    doubled = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if doubled:
        return f"the batch has several columns of these names: {', '.join(doubled)}"
    return None


def unlike(batch: "dict[str, str]", table: "dict[str, str]", required: Sequence[str]) -> str | None:
    """How the columns of a batch differ from those of a table; None if it takes them.

    Args:
        batch: the type of each column.
        table: likewise.
        required: columns of the table that take no nulls.
    """
    more = sorted(set(batch) - set(table))
    if more:
        return f"the table has no columns {', '.join(more)}; add them to it, or drop them"
    missing = [name for name in required if name not in batch]
    if missing:
        return f"the table wants values of these columns: {', '.join(missing)}"
    other = [
        f"{name} is {kind}, and {table[name]} in the table"
        for name, kind in batch.items()
        if kind != table[name]
    ]
    return "; ".join(other) or None


def entry_text(entry: Entry) -> str:
    """An entry as one text."""
    return json.dumps(entry.fields(), separators=(",", ":"))
