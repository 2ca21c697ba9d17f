"""What an epoch's manifest says, and who owns a sink: JSON, and what follows from it."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from cleancut._format import versioned
from cleancut._format.fields import typed
from cleancut.errors import error_of
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.ledger_errors import epoch_taken
from cleancut.sinks._epoch_log.names import OWNER, Attempt, manifest_name
from cleancut.sinks._epoch_log.records import Records

FORMAT_VERSION = 1

Record = TypeVar("Record")


@dataclass(frozen=True)
class DataFile:
    """One file of an epoch.

    Attributes:
        name: below the sink's path.
        bytes: its size.
    """

    name: str
    bytes: int

    @staticmethod
    def all_in(fields: dict[str, Any]) -> "tuple[DataFile, ...]":
        """Those that a record names."""
        return tuple(
            DataFile(typed(file, "name", str), typed(file, "bytes", int))
            for file in typed(fields, "files", list)
        )


@dataclass(frozen=True)
class Link:
    """What an epoch of a channel says of the one before it, so that a reader misses none.

    Attributes:
        after: the attempt that was published before it; None for the first.
    """

    after: Attempt | None

    def to_json(self) -> dict[str, Any] | None:
        """As a manifest has it."""
        of = self.after
        return None if of is None else {"epoch": of.epoch, "attempt": of.token}

    @staticmethod
    def in_fields(fields: dict[str, Any]) -> "Link | None":
        """That of a manifest; None where it is not of a channel."""
        if "after" not in fields:
            return None
        of = fields["after"]
        if of is None:
            return Link(None)
        return Link(Attempt(typed(of, "epoch", int), typed(of, "attempt", str)))


@dataclass(frozen=True)
class Manifest:
    """An epoch that is published: once its manifest is there, and not before.

    Attributes:
        attempt: the one that wrote it.
        query_id: Spark's id of the query, which its checkpoint keeps.
        run_id: Spark's id of the run of that query.
        planned_ms: when Spark chose the input of the epoch, in Unix time. Its offset log keeps
            that, so a second run of the same input has the same.
        published_ms: when the manifest was made, in Unix time.
        rows: of all files together.
        files: that hold the rows; none if there are no rows.
        format: Spark's name of their format.
        partition_by: the columns that are in the directories' names.
        schema: of the rows, Spark's JSON.
        link: to the epoch before it, in a channel.
    """

    attempt: Attempt
    query_id: str
    run_id: str
    planned_ms: int
    published_ms: int
    rows: int
    files: tuple[DataFile, ...]
    format: str
    partition_by: tuple[str, ...]
    schema: str
    link: Link | None = None

    @property
    def epoch(self) -> int:
        """Spark's batch id."""
        return self.attempt.epoch

    @property
    def size_bytes(self) -> int:
        """Of its rows, as they lie there."""
        return sum(file.bytes for file in self.files)

    def encode(self) -> bytes:
        """The manifest as it is written."""
        return encoded(
            {
                "epoch": self.epoch,
                "attempt": self.attempt.token,
                "queryId": self.query_id,
                "runId": self.run_id,
                "plannedMs": self.planned_ms,
                "publishedMs": self.published_ms,
                "rows": self.rows,
                "files": files_of(self.files),
                "format": self.format,
                "partitionBy": list(self.partition_by),
                "schema": json.loads(self.schema),
                **({} if self.link is None else {"after": self.link.to_json()}),
            }
        )

    @staticmethod
    def decode(body: bytes, path: str, epoch: int | None = None) -> "Manifest":
        """Reads what `encode` made, from the place of this epoch, or from one that has no name.

        Raises:
            CorruptedError: CLEANCUT_SINK_CORRUPTED, naming the path.
            RequestError: CLEANCUT_FORMAT_UNKNOWN, a later release wrote it.
        """

        def parsed(fields: dict[str, Any]) -> Manifest:
            found = typed(fields, "epoch", int)
            if epoch is not None and found != epoch:
                raise ValueError(f"it is that of epoch {found}")
            return Manifest(
                attempt=Attempt(found, typed(fields, "attempt", str)),
                query_id=typed(fields, "queryId", str),
                run_id=typed(fields, "runId", str),
                planned_ms=typed(fields, "plannedMs", int),
                published_ms=typed(fields, "publishedMs", int),
                rows=typed(fields, "rows", int),
                files=DataFile.all_in(fields),
                format=typed(fields, "format", str),
                partition_by=tuple(typed(fields, "partitionBy", list)),
                schema=schema_in(fields),
                link=Link.in_fields(fields),
            )

        return decoded(body, path, parsed)

    def check(self, batch: Batch, location: str) -> None:
        """Whether this is the epoch that a query is about to write.

        Raises:
            RequestError: CLEANCUT_SINK_OWNER_MISMATCH, another query has published it;
                CLEANCUT_SINK_EPOCH_CONFLICT, the same query has, with other input.
        """
        check_input(self, batch, location)


@dataclass(frozen=True)
class Owner:
    """The one query that a sink belongs to.

    Attributes:
        query_id: Spark's id.
        checkpoint: where the query's checkpoint lay when it first wrote here.
    """

    query_id: str
    checkpoint: str

    def encode(self) -> bytes:
        """The record as it is written."""
        return encoded({"queryId": self.query_id, "checkpoint": self.checkpoint})

    @staticmethod
    def decode(body: bytes, path: str) -> "Owner":
        """Reads what `encode` made.

        Raises:
            CorruptedError: CLEANCUT_SINK_CORRUPTED, naming the path.
            RequestError: CLEANCUT_FORMAT_UNKNOWN, a later release wrote it.
        """

        def parsed(fields: dict[str, Any]) -> Owner:
            return Owner(typed(fields, "queryId", str), typed(fields, "checkpoint", str))

        return decoded(body, path, parsed)

    def check(self, batch: Batch, location: str) -> None:
        """Whether the query that is about to write is this one.

        Raises:
            RequestError: CLEANCUT_SINK_OWNER_MISMATCH, naming both.
        """
        if self.query_id != batch.query_id:
            raise owned(location, batch, f"{self.query_id} with the checkpoint {self.checkpoint}")


def owner_of(records: Records) -> Owner | None:
    """The query that a sink belongs to; None before any has written there.

    Raises:
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    body = records.read(OWNER)
    return None if body is None else Owner.decode(body, records.at(OWNER))


def claim(records: Records, batch: Batch) -> None:
    """Makes a sink that of the query which is about to write, if it is nobody's.

    Raises:
        RequestError: CLEANCUT_SINK_OWNER_MISMATCH, it is another one's.
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    mine = Owner(batch.query_id, batch.checkpoint)
    if not claim_for(records, mine):
        (owner_of(records) or mine).check(batch, records.location)


def claim_for(records: Records, owner: Owner) -> bool:
    """Makes a sink that of a query, if it is nobody's; whether it is that query's then.

    Raises:
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    if records.create(OWNER, owner.encode()):
        return True
    found = owner_of(records)
    return found is None or found.query_id == owner.query_id


def read_manifest(directory: Records, epoch: int) -> Manifest | None:
    """The manifest of an epoch; None if it is not published.

    Raises:
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    name = manifest_name(epoch)
    body = directory.read(name)
    return None if body is None else Manifest.decode(body, directory.at(name), epoch)


class Published(Protocol):
    """What tells of which query and input a published epoch is."""

    @property
    def query_id(self) -> str:
        """Spark's id of the query."""

    @property
    def run_id(self) -> str:
        """Spark's id of the run."""

    @property
    def planned_ms(self) -> int:
        """When Spark chose the input, in Unix time."""


def check_input(published: Published, batch: Batch, location: str) -> None:
    """Whether what is published of an epoch is what a query is about to write.

    Raises:
        RequestError: CLEANCUT_SINK_OWNER_MISMATCH, CLEANCUT_SINK_EPOCH_CONFLICT.
    """
    if published.query_id != batch.query_id:
        owner = f"{published.query_id}, which published epoch {batch.epoch}"
        raise owned(location, batch, owner)
    if published.planned_ms != batch.planned_ms:
        raise epoch_taken(batch, published.run_id, published.planned_ms, location)


def owned(location: str, batch: Batch, owner: str) -> Exception:
    """The error for a sink that another query writes to."""
    return error_of(
        "CLEANCUT_SINK_OWNER_MISMATCH",
        path=location,
        owner=owner,
        query=f"{batch.query_id} with the checkpoint {batch.checkpoint}",
        epoch=batch.epoch,
    )


def files_of(files: Iterable[DataFile]) -> list[dict[str, Any]]:
    """Files as a record names them."""
    return [{"name": file.name, "bytes": file.bytes} for file in files]


def schema_in(fields: dict[str, Any]) -> str:
    """The schema that a record has, Spark's JSON."""
    return json.dumps(typed(fields, "schema", dict), separators=(",", ":"), ensure_ascii=False)


def encoded(fields: dict[str, Any]) -> bytes:
    return versioned.encoded(fields, FORMAT_VERSION)


def decoded(body: bytes, path: str, parse: Callable[[dict[str, Any]], Record]) -> Record:
    damaged = "CLEANCUT_SINK_CORRUPTED"
    return versioned.decoded(body, path, parse, version=FORMAT_VERSION, damaged=damaged)
