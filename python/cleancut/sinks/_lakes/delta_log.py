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

# The field of a commit's info that has an entry, and the prefix of what numbers it keeps.
INFO = "cleancut"
_NOWHERE = -1

Action = dict[str, Any]


@dataclass(frozen=True)
class DeltaOptions:
    """How rows change a table.

    Attributes:
        keys: columns by which a row takes the place of another one; none adds all rows.
        partition_by: columns of partitions, of a table that is made.
        file_bytes: after how many bytes a file is closed.
    """

    keys: tuple[str, ...]
    partition_by: tuple[str, ...]
    file_bytes: int


class DeltaLog:
    """Implements `LakeLog` on the commits of a table."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The place of the table, without a secret."""

    @abstractmethod
    def version(self) -> int:
        """That of the table, as it was looked at."""

    @abstractmethod
    def transaction_version(self, application: str) -> int | None:
        """The version of the last transaction of an application; None if there is none."""

    @abstractmethod
    def actions(self, version: int) -> list[Action] | None:
        """What a commit says; None if it is deleted."""

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
        """Whether the table has what a commit has changed: RESTORE leaves its transactions."""
        version = self.version()
        while version > at:
            restored = self.restored_by(version)
            version = version - 1 if restored is None else restored
        return version == at

    def restored_by(self, version: int) -> int | None:
        """The version that a commit has restored; None if it has not restored any."""
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
        """What is left of an entry whose commit is deleted, as it is older than the log is kept."""
        query = pointer(query_id)
        last = self.transaction_version(f"{query}:epoch")
        if last is None:
            raise error_of(
                "CLEANCUT_SINK_REFUSED",
                sink=f"DeltaSink {self.label}",
                reason=f"version {at} of its log is deleted, which alone says which epoch of the "
                f"query {query_id} is the last one there; look which of them the table has, and "
                "go on with a new checkpoint, or in a new table",
            )
        planned = self.transaction_version(f"{query}:planned")
        run = Run("of an entry that is deleted", last=last)
        epoch = LedgerEpoch(0, last, planned or 0, run.run_id, "", -1, 0)
        latest = None if planned is None else epoch
        return Placed(at, Entry(query_id, run, _NOWHERE, latest, latest=latest))

    def entry(self, at: int, query_id: str) -> Entry | None:
        found = None if at == _NOWHERE else self.actions(at)
        if found is None:
            return None
        for action in found:
            fields = action.get("commitInfo", {}).get(INFO)
            if isinstance(fields, dict) and fields.get("queryId") == query_id:
                return Entry.parse(fields, f"version {at} of {self.label}")
        raise error_of(
            "CLEANCUT_SINK_CORRUPTED",
            path=self.label,
            detail=f"version {at} is no commit of the query {query_id}",
        )

    def check_goes_back(self, query_id: str, first: int) -> None:
        """Refuses to restore the version before one, unless only the query has committed since.

        Raises:
            UndoRefusedError: somebody else has.
        """
        expected = self.version()
        for placed in chain(self, self.head(query_id)):
            if placed.at != expected:
                raise UndoRefusedError(f"version {expected} of the table is not the query's")
            if placed.at == first:
                break
            expected -= 1

    def check_may_undo(self, epochs: Sequence[PastEpoch]) -> None:
        """Refuses to undo anything where the table may only grow.

        Raises:
            UndoRefusedError: it may.
        """
        if epochs and self.configuration().get("delta.appendOnly", "false") == "true":
            raise UndoRefusedError("nothing may be removed from the table (delta.appendOnly)")

    def added_by(self, epochs: Sequence[PastEpoch]) -> Iterator[tuple[PastEpoch, list[Action]]]:
        """The files that each of some epochs has added."""
        for of in epochs:
            found = self.actions(of.at) or ()
            added = [action for action in found if "add" in action]
            if not added:
                raise gone(of)
            yield of, added


def _unix_ms(text: object) -> int | None:
    """A time as RESTORE has it, in milliseconds or as text; None if it is no time."""
    try:
        if str(text).isdigit():
            return int(str(text))
        return int(datetime.fromisoformat(str(text)).timestamp() * 1000)
    except ValueError:
        return None


def gone(of: PastEpoch) -> UndoRefusedError:
    """Why an epoch cannot be taken back whose files are others by now."""
    return UndoRefusedError(f"files of epoch {of.epoch.epoch} have been rewritten or deleted since")


def pointer(query_id: str) -> str:
    """The application of the transaction that says where the last entry of a query is."""
    return f"{INFO}:{query_id}"


def noted(entry: Entry, at: int) -> dict[str, int]:
    """The versions of all transactions of a commit that has an entry, by their applications.

    Args:
        entry: of the commit.
        at: the version that the commit creates.
    """
    query = pointer(entry.query_id)
    found = {query: at, f"{query}:epoch": entry.run.last}
    if entry.latest is not None:
        found[f"{query}:planned"] = entry.latest.planned_ms
    return found


def columns_problem(
    batch: "StructType",
    table: "StructType",
    partitions: tuple[str, ...],
    how: DeltaOptions,
) -> str | None:
    """Why a table does not take rows with these columns; None if it does.

    Args:
        batch: of the rows.
        table: of the table.
        partitions: columns of its partitions.
        how: rows change it.
    """
    required = [of.name for of in table.fields if not of.nullable]
    found = unlike(_types(batch), _types(table), required)
    if found is not None:
        return found
    within = [
        of.name for of in batch.fields if has_nulls_within(of.dataType, table[of.name].dataType)
    ]
    if within:
        return f"there may be nulls within {', '.join(within)}, and the table takes none there"
    wanted = (*partitions, *how.keys)
    missing = sorted({*wanted} - {*batch.names})
    if missing:
        return f"the batch lacks these columns of partitions or keys: {', '.join(missing)}"
    if how.partition_by and how.partition_by != partitions:
        return f"the table is partitioned by {', '.join(partitions) or 'nothing'}"
    return None


def _types(schema: "StructType") -> dict[str, str]:
    return {of.name: of.dataType.simpleString() for of in schema.fields}
