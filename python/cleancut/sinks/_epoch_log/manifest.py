"""The manifest of an epoch, and the owner of a sink: JSON records and their checks."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from cleancut._format import json_records
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
        name: name below the sink's path.
        bytes: size of the file.
    """

    name: str
    bytes: int

    @staticmethod
    def all_in(fields: dict[str, Any]) -> "tuple[DataFile, ...]":
        """The files in a record."""
        return tuple(
            DataFile(typed(file, "name", str), typed(file, "bytes", int))
            for file in typed(fields, "files", list)
        )


@dataclass(frozen=True)
class Link:
    """The reference of a channel's epoch to the previous one, so that a reader misses none.

    Attributes:
        after: the attempt that was published before it; None for the first epoch.
    """

    after: Attempt | None

    def to_json(self) -> dict[str, Any] | None:
        """The JSON value in a manifest."""
        attempt = self.after
        return None if attempt is None else {"epoch": attempt.epoch, "attempt": attempt.token}

    @staticmethod
    def in_fields(fields: dict[str, Any]) -> "Link | None":
        """The link in a manifest; None if it is not of a channel."""
        if "after" not in fields:
            return None
        attempt = fields["after"]
        if attempt is None:
            return Link(None)
        return Link(Attempt(typed(attempt, "epoch", int), typed(attempt, "attempt", str)))


@dataclass(frozen=True)
class Manifest:
    """A published epoch: its manifest publishes it.

    Attributes:
        attempt: the attempt that wrote it.
        query_id: Spark's query id, which the checkpoint stores.
        run_id: Spark's id of the run of the query.
        planned_ms: time at which Spark planned the epoch, in Unix time. The offset log stores it,
            so a repetition with the same input has the same time.
        published_ms: time at which the manifest was created, in Unix time.
        rows: number of rows in all files.
        files: the files with the rows; empty if there are no rows.
        format: Spark's name of their format.
        partition_by: the partition columns, in the names of directories.
        schema: schema of the rows, as Spark's JSON.
        link: reference to the previous epoch, in a channel.
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
        """Size of its files."""
        return sum(file.bytes for file in self.files)

    def encode(self) -> bytes:
        """The manifest as bytes."""
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
        """Parses the result of `encode`; checks the epoch if one is given.

        Raises:
            CorruptedError: CLEANCUT_SINK_CORRUPTED, naming the path.
            RequestError: CLEANCUT_FORMAT_UNKNOWN, a later release wrote it.
        """

        def parsed(fields: dict[str, Any]) -> Manifest:
            number = typed(fields, "epoch", int)
            if epoch is not None and number != epoch:
                raise ValueError(f"it is that of epoch {number}")
            return Manifest(
                attempt=Attempt(number, typed(fields, "attempt", str)),
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
        """Checks that this is the epoch that a query is about to write.

        Raises:
            RequestError: CLEANCUT_SINK_OWNER_MISMATCH, another query has published it;
                CLEANCUT_SINK_EPOCH_CONFLICT, the same query has, with other input.
        """
        check_input(self, batch, location)


@dataclass(frozen=True)
class Owner:
    """The one query that a sink belongs to.

    Attributes:
        query_id: Spark's query id.
        checkpoint: location of the query's checkpoint when it first wrote to the sink.
    """

    query_id: str
    checkpoint: str

    def encode(self) -> bytes:
        """The record as bytes."""
        return encoded({"queryId": self.query_id, "checkpoint": self.checkpoint})

    @staticmethod
    def decode(body: bytes, path: str) -> "Owner":
        """Parses the result of `encode`.

        Raises:
            CorruptedError: CLEANCUT_SINK_CORRUPTED, naming the path.
            RequestError: CLEANCUT_FORMAT_UNKNOWN, a later release wrote it.
        """

        def parsed(fields: dict[str, Any]) -> Owner:
            return Owner(typed(fields, "queryId", str), typed(fields, "checkpoint", str))

        return decoded(body, path, parsed)

    def check(self, batch: Batch, location: str) -> None:
        """Checks that the query that is about to write is the owner.

        Raises:
            RequestError: CLEANCUT_SINK_OWNER_MISMATCH, naming both.
        """
        if self.query_id != batch.query_id:
            raise owned(location, batch, f"{self.query_id} with the checkpoint {self.checkpoint}")


def owner_of(records: Records) -> Owner | None:
    """The query that a sink belongs to; None if no query has written to it.

    Raises:
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    body = records.read(OWNER)
    return None if body is None else Owner.decode(body, records.at(OWNER))


def claim(records: Records, batch: Batch) -> None:
    """Makes a query the owner of a sink that has no owner.

    Raises:
        RequestError: CLEANCUT_SINK_OWNER_MISMATCH, another query is the owner.
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    mine = Owner(batch.query_id, batch.checkpoint)
    if not claim_for(records, mine):
        (owner_of(records) or mine).check(batch, records.location)


def claim_for(records: Records, owner: Owner) -> bool:
    """Makes a query the owner of a sink without owner; returns whether the query owns it.

    Raises:
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    if records.create(OWNER, owner.encode()):
        return True
    owner_found = owner_of(records)
    return owner_found is None or owner_found.query_id == owner.query_id


def read_manifest(directory: Records, epoch: int) -> Manifest | None:
    """The manifest of an epoch; None if it is not published.

    Raises:
        CorruptedError: CLEANCUT_SINK_CORRUPTED.
    """
    name = manifest_name(epoch)
    body = directory.read(name)
    return None if body is None else Manifest.decode(body, directory.at(name), epoch)


class Published(Protocol):
    """The query and the input of a published epoch."""

    @property
    def query_id(self) -> str:
        """Spark's id of the query."""

    @property
    def run_id(self) -> str:
        """Spark's id of the run."""

    @property
    def planned_ms(self) -> int:
        """Time at which Spark planned the input, in Unix time."""


def check_input(published: Published, batch: Batch, location: str) -> None:
    """Checks that a published epoch has the query and the input of a batch.

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
    """The JSON value of files in a record."""
    return [{"name": file.name, "bytes": file.bytes} for file in files]


def schema_in(fields: dict[str, Any]) -> str:
    """The schema in a record, as Spark's JSON."""
    return json.dumps(typed(fields, "schema", dict), separators=(",", ":"), ensure_ascii=False)


def encoded(fields: dict[str, Any]) -> bytes:
    return json_records.encoded(fields, FORMAT_VERSION)


def decoded(body: bytes, path: str, parse: Callable[[dict[str, Any]], Record]) -> Record:
    damaged = "CLEANCUT_SINK_CORRUPTED"
    return json_records.decoded(body, path, parse, version=FORMAT_VERSION, damaged=damaged)
