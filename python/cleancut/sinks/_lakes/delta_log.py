"""The entries of queries in the log of a Delta table.

A commit of a query has its entry in the field `cleancut` of the commit's info. The version of the
last entry is the number of a transaction of Delta's protocol. Delta keeps such transactions when it
deletes old commits, so two more transactions have the last epoch and the time of its plan.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from cleancut.errors import error_of
from cleancut.sinks._core.ledger import LedgerEpoch, Run
from cleancut.sinks._core.ledger_errors import UndoRefusedError
from cleancut.sinks._lakes.delta_types import has_nulls_within
from cleancut.sinks._lakes.lake import unlike
from cleancut.sinks._lakes.log import Entry, PastEpoch, Placed, chain, last_included

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# The field of a commit's info that contains an entry, and the prefix of its transactions.
INFO = "cleancut"
_NOWHERE = -1

Action = dict[str, Any]


@dataclass(frozen=True)
class DeltaOptions:
    """Options of writes to a table.

    Attributes:
        keys: key columns, by which a row replaces another one; empty if all rows are appended.
        partition_by: partition columns of a new table.
        file_bytes: size in bytes at which a file is closed.
    """

    keys: tuple[str, ...]
    partition_by: tuple[str, ...]
    file_bytes: int


class DeltaLog:
    """Implements `LakeLog` on the commits of a table."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The location of the table, without secrets."""

    @abstractmethod
    def version(self) -> int:
        """The version of the table that was read."""

    @abstractmethod
    def transaction_version(self, application: str) -> int | None:
        """The version of the last transaction of an application; None if there is none."""

    @abstractmethod
    def actions(self, version: int) -> list[Action] | None:
        """The actions of a commit; None if its log file is deleted."""

    @abstractmethod
    def configuration(self) -> Mapping[str, str]:
        """The properties of the table."""

    def head(self, query_id: str) -> Placed | None:
        at = self.transaction_version(pointer(query_id))
        if at is None:
            return None
        entry = self.entry(at, query_id)
        head = self._remembered(at, query_id) if entry is None else Placed(at, entry)
        return last_included(self, head, self._includes)

    def _includes(self, at: int) -> bool:
        """Whether the table includes a commit: RESTORE leaves the transactions of later ones."""
        version = self.version()
        while version > at:
            restored = self.restored_by(version)
            version = version - 1 if restored is None else restored
        return version == at

    def restored_by(self, version: int) -> int | None:
        """The version that a commit has restored; None if it restored none."""
        for action in self.actions(version) or ():
            info = action.get("commitInfo", {})
            if info.get("operation") == "RESTORE":
                return self._restored(version, info.get("operationParameters", {}))
        return None

    def _restored(self, version: int, parameters: Mapping[str, Any]) -> int | None:
        if parameters.get("version") is not None:
            return int(parameters["version"])
        at_ms = _unix_ms(parameters.get("timestamp") or parameters.get("datetime"))
        if at_ms is None:
            return None
        while version > 0:
            version -= 1
            for action in self.actions(version) or ():
                if action.get("commitInfo", {}).get("timestamp", at_ms + 1) <= at_ms:
                    return version
        return version

    def _remembered(self, at: int, query_id: str) -> Placed:
        """The rest of an entry whose commit was deleted at the end of the log's retention."""
        query = pointer(query_id)
        last = self.transaction_version(f"{query}:epoch")
        if last is None:
            raise error_of(
                "CLEANCUT_SINK_REFUSED",
                sink=f"DeltaSink {self.label}",
                reason=f"version {at} of its log, which records the last epoch of the query "
                f"{query_id}, is deleted; check which epochs the table contains, then start with "
                "a new checkpoint or a new table",
            )
        planned = self.transaction_version(f"{query}:planned")
        run = Run("of an entry that is deleted", last=last)
        epoch = LedgerEpoch(0, last, planned or 0, run.run_id, "", -1, 0)
        latest = None if planned is None else epoch
        return Placed(at, Entry(query_id, run, _NOWHERE, latest, latest=latest))

    def entry(self, at: int, query_id: str) -> Entry | None:
        actions = None if at == _NOWHERE else self.actions(at)
        if actions is None:
            return None
        for action in actions:
            fields = action.get("commitInfo", {}).get(INFO)
            if isinstance(fields, dict) and fields.get("queryId") == query_id:
                return Entry.parse(fields, f"version {at} of {self.label}")
        raise error_of(
            "CLEANCUT_SINK_CORRUPTED",
            path=self.label,
            detail=f"version {at} is no commit of the query {query_id}",
        )

    def check_goes_back(self, query_id: str, first: int) -> None:
        """Refuses to restore the version before `first`, unless only the query has committed since.

        Raises:
            UndoRefusedError: another writer has committed.
        """
        expected = self.version()
        for placed in chain(self, self.head(query_id)):
            if placed.at != expected:
                raise UndoRefusedError(f"version {expected} of the table is not the query's")
            if placed.at == first:
                break
            expected -= 1

    def check_may_undo(self, epochs: Sequence[PastEpoch]) -> None:
        """Refuses to undo epochs of an append-only table.

        Raises:
            UndoRefusedError: the table is append-only.
        """
        if epochs and self.configuration().get("delta.appendOnly", "false") == "true":
            raise UndoRefusedError("nothing may be removed from the table (delta.appendOnly)")

    def added_by(self, epochs: Sequence[PastEpoch]) -> Iterator[tuple[PastEpoch, list[Action]]]:
        """The files that each of the given epochs has added."""
        for past_epoch in epochs:
            actions = self.actions(past_epoch.at) or ()
            added = [action for action in actions if "add" in action]
            if not added:
                raise missing_files(past_epoch)
            yield past_epoch, added


def _unix_ms(text: object) -> int | None:
    """A time of a RESTORE, in milliseconds or as text; None if it is invalid."""
    try:
        if str(text).isdigit():
            return int(str(text))
        return int(datetime.fromisoformat(str(text)).timestamp() * 1000)
    except ValueError:
        return None


def missing_files(past_epoch: PastEpoch) -> UndoRefusedError:
    """The error for an epoch that cannot be undone, because its files were replaced."""
    return UndoRefusedError(
        f"files of epoch {past_epoch.epoch.epoch} have been rewritten or deleted since"
    )


def pointer(query_id: str) -> str:
    """The application of the transaction that records the version of a query's last entry."""
    return f"{INFO}:{query_id}"


def transactions_of(entry: Entry, at: int) -> dict[str, int]:
    """The versions of all transactions of a commit with an entry, by application.

    Args:
        entry: the entry of the commit.
        at: the version that the commit creates.
    """
    query = pointer(entry.query_id)
    versions = {query: at, f"{query}:epoch": entry.run.last}
    if entry.latest is not None:
        versions[f"{query}:planned"] = entry.latest.planned_ms
    return versions


def columns_problem(
    batch: "StructType",
    table: "StructType",
    partitions: tuple[str, ...],
    how: DeltaOptions,
) -> str | None:
    """The reason why a table does not accept rows with these columns; None if it does.

    Args:
        batch: schema of the rows.
        table: schema of the table.
        partitions: partition columns of the table.
        how: options of writes to the table.
    """
    required = [field.name for field in table.fields if not field.nullable]
    problem = unlike(_types(batch), _types(table), required)
    if problem is not None:
        return problem
    within = [
        field.name
        for field in batch.fields
        if has_nulls_within(field.dataType, table[field.name].dataType)
    ]
    if within:
        return f"there may be nulls within {', '.join(within)}, which the table does not accept"
    wanted = (*partitions, *how.keys)
    missing = sorted({*wanted} - {*batch.names})
    if missing:
        return f"the batch lacks these partition or key columns: {', '.join(missing)}"
    if how.partition_by and how.partition_by != partitions:
        return f"the table is partitioned by {', '.join(partitions) or 'nothing'}"
    return None


def _types(schema: "StructType") -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema.fields}
