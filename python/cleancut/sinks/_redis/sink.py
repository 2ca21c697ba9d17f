"""Redis: executors write an epoch concurrently into lists, and one script publishes it."""

import functools
import json
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from cleancut._display.info_list import InfoList
from cleancut.errors import CleancutError, error_of
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.columns import quoted
from cleancut.sinks._core.epoch_sink import EpochSink
from cleancut.sinks._core.ledger import LedgerEpoch
from cleancut.sinks._core.ledger_errors import UndoRefusedError
from cleancut.sinks._core.query_side import QuerySide
from cleancut.sinks._ledgers.document import LedgerDocument, document_ledger
from cleancut.sinks._redis.rows import (
    KeyTemplate,
    RowPlan,
    as_document,
    as_field,
    refused_types,
    stage_rows,
)
from cleancut.sinks._redis.scripts import PUBLISH, TAKE_OVER
from cleancut.sinks._redis.server import RedisServer, server_problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG = logging.getLogger("cleancut.sinks")
_REPORT = "attempt string, rows bigint, elements bigint"
_RANK = "cleancut_rank"
_NAMES_AT_ONCE = 1000

Result = TypeVar("Result")


@dataclass(frozen=True)
class _Options:
    """The options of `RedisSink`."""

    key: str
    stream: str
    value: str
    order_by: str
    delete_when: str
    ttl_s: float
    keep_undo: int
    max_rows: int
    allow_volatile: bool

    def problem(self) -> str | None:
        """The reason why the options contradict each other; None if they do not."""
        if bool(self.key) == bool(self.stream):
            return "it needs either the template of a key or the name of a stream"
        if self.stream and (self.order_by or self.delete_when or self.ttl_s):
            return "order_by, delete_when and ttl_s require keys, and a stream has none"
        if self.value not in ("hash", "json"):
            return "a value is 'hash' or 'json'"
        if self.ttl_s < 0 or self.keep_undo < 0 or self.max_rows < 1:
            return "ttl_s and keep_undo are not negative, and max_rows is at least 1"
        return None

    @property
    def kind(self) -> str:
        """The form of a row, for the scripts."""
        if self.stream:
            return "stream"
        return "hash" if self.value == "hash" else "string"


class _Names:
    """The names of the sink's own keys for one query."""

    def __init__(self, target: str, query_id: str) -> None:
        self._base = f"cleancut:{target}:{query_id}"
        self.ledger = f"{self._base}:ledger"
        self.undos = f"{self._base}:undos"
        self.tries = f"{self._base}:tries"
        # Shared by all queries that write to the target.
        self.queries = f"cleancut:{target}:queries"

    def attempt(self, token: str) -> str:
        """The set of the lists of one attempt, and the prefix of their names."""
        return f"{self._base}:try:{token}"

    def undo(self, epoch: int) -> str:
        """The list of an epoch's changes."""
        return f"{self._base}:undo:{epoch}"

    def was(self, epoch: int) -> str:
        """The prefix of the names of values that an epoch has replaced."""
        return f"{self._base}:was:{epoch}:"


@dataclass(frozen=True)
class _Staged:
    """The handle of an epoch: its attempt, and the rows and elements of each list."""

    token: str
    lists: dict[str, tuple[int, int]]

    @property
    def rows(self) -> int:
        return sum(rows for rows, _ in self.lists.values())

    def encode(self) -> str:
        return json.dumps([self.token, self.lists])

    @staticmethod
    def decode(handle: str) -> "_Staged":
        token, lists = json.loads(handle)
        return _Staged(token, {name: (rows, size) for name, (rows, size) in lists.items()})


class RedisSink(EpochSink):
    """Writes each epoch of a query exactly once into Redis: replaced keys, or a stream.

    The executors write an epoch concurrently into staging lists. The driver publishes it with one
    script, which changes the keys and records the epoch atomically. So readers see complete epochs
    within one command, script or transaction.

        counts.writeStream.outputMode("update").foreachBatch(
            RedisSink("redis://cache:6379/0", key="counts:{day}:{k}")
        ).start()

    The server is blocked while the script runs, about a second for 100,000 small rows. Therefore an
    epoch of more than `max_rows` rows is refused. The driver and the executors need the extra
    `cleancut[redis]` and access to the server.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str = "",
        stream: str = "",
        value: Literal["hash", "json"] = "hash",
        order_by: str = "",
        delete_when: str = "",
        ttl_s: float = 0.0,
        keep_undo: int = 0,
        max_rows: int = 100_000,
        allow_volatile: bool = False,
        retry_for_s: float = 60.0,
    ) -> None:
        """Creates the sink; it connects at the first epoch.

        Args:
            url: redis-py URL, such as `redis://user@host:6379/0` or `rediss://…`. A password in it
                is in no log, error and plan.
            key: template of a row's key with names of columns: `counts:{day}:{k}`. The value of the
                key is replaced.
            stream: name of a stream to append rows to, instead of keys.
            value: "hash" for a hash with a field for each column that is not null, "json" for a
                string with a JSON object of all columns.
            order_by: column that selects the row with the greatest value if an epoch has several
                rows with the same key; without it such rows are refused.
            delete_when: boolean column that is not written; a row in which it is true deletes its
                key.
            ttl_s: time to live of written keys, in seconds; 0 is unlimited.
            keep_undo: number of epochs for which replaced values and added entries are kept, so
                that they can be restored when the query is rolled back.
            max_rows: maximum number of rows of an epoch; more are refused before any is written.
            allow_volatile: accept a server that loses acknowledged writes when it crashes
                (`appendonly no`, `appendfsync no`).
            retry_for_s: seconds for which a lost connection is retried.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, the arguments are contradictory.
        """
        self._options = _Options(
            key, stream, value, order_by, delete_when, ttl_s, keep_undo, max_rows, allow_volatile
        )
        self._server = RedisServer(url)
        self._retry_for_s = retry_for_s
        self._ledger = document_ledger(f"RedisSink {key or stream}")
        self._names: _Names | None = None
        self._swept: str | None = None
        problem = self._options.problem()
        if problem is not None:
            raise self._refusal(problem)
        try:
            self._template = KeyTemplate.parse(key) if key else None
        except ValueError as unparsed:
            raise self._refusal(str(unparsed)) from None

    def __repr__(self) -> str:
        options = self._options
        target = f"stream={options.stream!r}" if options.stream else f"key={options.key!r}"
        return f"RedisSink({self._server.label!r}, {target})"

    @property
    def name(self) -> str:
        """The key or stream, and the server, without a password."""
        return f"{self._ledger.sink} of {self._server.label}"

    @property
    def ledger_key(self) -> str:
        """The key of the ledger; see `EpochSink`."""
        return self._ledger.sink

    def accept_gap(self, first: int, last: int) -> None:
        """Accepts a loss of epochs; see `EpochSink`."""
        super().accept_gap(first, last)
        self._ledger = replace(self._ledger, gaps=self._gaps)

    def accept_move(self, checkpoint: str) -> None:
        """Accepts a former location of the checkpoint; see `EpochSink`."""
        super().accept_move(checkpoint)
        self._ledger = replace(self._ledger, moves=self._moves)

    def begin(self, side: QuerySide, session: "SparkSession") -> None:
        """Takes over the target for a run, and rolls it back with the query; see `EpochSink`.

        Raises:
            FencedError: CLEANCUT_FENCED.
            RequestError: CLEANCUT_SINK_REFUSED, the server cannot do it, or would forget what it
                has acknowledged; CLEANCUT_SINK_UNDO_REFUSED.
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
        """
        problem = self._within(lambda client: server_problem(client, self._options.allow_volatile))
        if problem is not None:
            raise self._refusal(problem)
        names = self._names = _Names(self._options.key or self._options.stream, side.batch.query_id)
        self._swept = None
        owner = side.generation() or 0

        def take_over(client: Any, document: LedgerDocument) -> Callable[[bytes], Any]:
            undone: list[int] = []

            def undo(_: LedgerDocument, epochs: Sequence[LedgerEpoch]) -> None:
                undone.extend(reversed([client.epoch for client in epochs if client.rows]))
                self._check_undo(client, side.batch.query_id, epochs, undone)

            self._ledger.begin(document, side, owner, undo)
            prefixes = [part for epoch in undone for part in (epoch, names.was(epoch))]
            lists = [names.undo(epoch) for epoch in undone]
            return lambda before: client.eval(
                TAKE_OVER,
                2 + len(lists),
                *(names.ledger, names.undos, *lists),
                *(before, document.encode(), self._options.kind, *prefixes),
            )

        self._changing(take_over)

    def _check_undo(
        self,
        client: Any,
        query_id: str,
        epochs: Sequence[LedgerEpoch],
        undone: Sequence[int],
    ) -> None:
        if not undone:
            return
        if not self._options.keep_undo:
            raise UndoRefusedError(
                "the values that these epochs changed are not stored (keep_undo)"
            )
        names = self._of_run()
        lost = [epoch for epoch in undone if not client.exists(names.undo(epoch))]
        if lost:
            raise UndoRefusedError(
                f"the values that epochs {lost[-1]} to {lost[0]} replaced are deleted"
            )
        since = min(epoch.published_ms for epoch in epochs)
        written = client.hgetall(names.queries).items()
        others = sorted(query.decode() for query, at in written if int(at) >= since)
        others = [other for other in others if other != query_id]
        if others and self._options.key:
            raise UndoRefusedError(f"the queries {', '.join(others)} have written to it since")

    def published(self, batch: Batch) -> str | None:
        """The published attempt of the epoch; see `EpochSink`."""

        def find(client: Any) -> str | None:
            _, document = self._read(client)
            epoch = self._ledger.find(document, batch)
            return None if epoch is None else epoch.handle

        return self._within(find)

    def can_publish(self, handle: str, batch: Batch, published: str | None) -> bool:
        """Whether all lists exist with all their elements."""
        if published is not None:
            # The epoch may have been sealed by a run that had found it published.
            return handle == published or _Staged.decode(handle).token == published
        staged, names = _Staged.decode(handle), self._of_run()

        def is_whole(client: Any) -> bool:
            place = names.attempt(staged.token)
            return all(
                client.llen(f"{place}:{name}") == size for name, (_, size) in staged.lists.items()
            )

        return self._within(is_whole)

    def stage(self, rows: "DataFrame", batch: Batch) -> str:
        """Has the executors write the rows into lists; returns their names.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, a column has no form, a key no value, or the epoch
                has more than `max_rows` rows.
        """
        plan = self._plan(rows)
        count, most = rows.count(), self._options.max_rows
        if count > most:
            raise self._refusal(
                f"epoch {batch.epoch} has {count} rows, and at most {most} (max_rows) may be"
                " published in one step, which blocks the server. Configure smaller epochs"
                " (maxOffsetsPerTrigger, maxFilesPerTrigger), or increase the limit"
            )
        token = f"{batch.epoch:016d}-{secrets.token_hex(8)}"
        names = self._of_run()
        self._within(lambda client: client.sadd(names.tries, token))
        write = functools.partial(
            stage_rows,
            self._server,
            names.attempt(token),
            plan,
            self._ledger.sink,
            self._retry_for_s,
        )
        reports = self._selected(rows, plan).mapInArrow(write, _REPORT).collect()
        lists = {row["attempt"]: (row["rows"], row["elements"]) for row in reports}
        return _Staged(token, lists).encode()

    def _plan(self, rows: "DataFrame") -> RowPlan:
        options, given = self._options, rows.columns
        lost = refused_types(rows.schema)
        if lost:
            raise self._refusal(f"these columns have types that it has no form for: {lost}")
        in_key = self._template.columns if self._template else []
        wanted = [*in_key, options.order_by, options.delete_when]
        absent = [name for name in wanted if name and name not in given]
        if absent or len(set(given)) < len(given):
            raise self._refusal(
                f"the batch has no columns {', '.join(absent)}"
                if absent
                else "the batch has several columns of one name"
            )
        fields = tuple(name for name in given if name != options.delete_when)
        if options.kind == "string":
            fields = ("value",)
        return RowPlan(
            self._template, options.stream, options.kind, fields, bool(options.delete_when)
        )

    def _selected(self, rows: "DataFrame", plan: RowPlan) -> "DataFrame":
        from pyspark.sql import Window
        from pyspark.sql import functions as F  # noqa: N812  # the name that all of PySpark uses

        def column(name: str) -> Any:
            return F.col(quoted(name))

        options, in_key = self._options, self._template.columns if self._template else []
        if options.order_by:
            ranked = Window.partitionBy(*map(column, in_key)).orderBy(
                column(options.order_by).desc()
            )
            rows = rows.withColumn(_RANK, F.row_number().over(ranked)).where(column(_RANK) == 1)
            rows = rows.drop(_RANK)
        kinds = {field.name: field.dataType for field in rows.schema.fields}
        written = [name for name in kinds if name != options.delete_when]
        chosen = [column(name).cast("string").alias(f"key{at}") for at, name in enumerate(in_key)]
        if plan.kind == "string":
            chosen.append(as_document([column(name) for name in written]).alias("value"))
        else:
            fields = (as_field(column(name), kinds[name]) for name in written)
            chosen += [field.alias(f"field{at}") for at, field in enumerate(fields)]
        if options.delete_when:
            chosen.append(F.coalesce(column(options.delete_when), F.lit(False)).alias("deletes"))
        return rows.select(chosen)

    def publish(self, handle: str, batch: Batch) -> None:
        """Changes the keys or adds to the stream, and records the epoch; see `EpochSink`.

        Raises:
            FencedError: CLEANCUT_FENCED.
            RequestError: CLEANCUT_SINK_REFUSED, keys are duplicated in the epoch;
                CLEANCUT_SINK_EPOCHS_LOST, the server has lost acknowledged epochs.
            RetryableError: CLEANCUT_SINK_STAGED_LOST, CLEANCUT_SINK_UNREACHABLE.
        """
        staged, names, options = _Staged.decode(handle), self._of_run(), self._options
        place = names.attempt(staged.token)
        # The changes of an epoch without rows are not visible, and need no undo.
        was = names.was(batch.epoch) if options.keep_undo else ""
        lists = [f"{place}:{name}" for name in staged.lists]

        def put(client: Any, document: LedgerDocument) -> Callable[[bytes], Any] | None:
            if self._ledger.lock(document, batch) is not None:
                return None
            self._ledger.publish(document, batch, staged.token, staged.rows)
            now, lives = time.time_ns() // 1_000_000, int(options.ttl_s * 1000)
            keys = (names.ledger, names.queries, names.undo(batch.epoch), names.undos, *lists)
            sizes = [size for _, size in staged.lists.values()]
            return lambda before: client.eval(
                PUBLISH,
                len(keys),
                *keys,
                *(before, document.encode(), batch.query_id, now, options.kind, options.stream),
                *(lives, was, batch.epoch, *sizes),
            )

        result = self._changing(put)
        if result is not None and result[0] != b"done":
            raise self._unpublished(batch, result[0].decode(), result[1])
        self._drop(batch, lambda token: token == staged.token)

    def _unpublished(self, batch: Batch, what: str, detail: Any) -> Exception:
        if what == "lost":
            return error_of(
                "CLEANCUT_SINK_STAGED_LOST",
                sink=self.name,
                epoch=batch.epoch,
                detail=f"the list {detail.decode()} is not as it was",
            )
        if what == "type":
            return self._refusal(f"{self._options.stream} is no stream but a {detail.decode()}")
        return self._refusal(
            f"{detail} keys are duplicated in the epoch; select one row (order_by)"
        )

    def clean_up(self, batch: Batch) -> None:
        """Deletes leftovers of attempts up to this epoch, once in a run, and old undo lists."""
        if self._swept != batch.run_id:
            self._swept = batch.run_id
            self._drop(batch, lambda token: int(token.partition("-")[0]) <= batch.epoch)
        if self._options.keep_undo:
            self._quietly(functools.partial(self._drop_undos, batch.epoch))

    def _drop(self, batch: Batch, is_due: Callable[[str], bool]) -> None:
        names = self._of_run()

        def work(client: Any) -> None:
            for token in map(bytes.decode, client.smembers(names.tries)):
                if not is_due(token):
                    continue
                place = names.attempt(token)
                lists = [f"{place}:{name.decode()}" for name in client.smembers(place)]
                client.unlink(place, *lists)
                client.srem(names.tries, token)

        self._quietly(work)

    def _drop_undos(self, epoch: int, client: Any) -> None:
        names = self._of_run()
        for old in map(int, client.smembers(names.undos)):
            if old > epoch - self._options.keep_undo:
                continue
            changed = client.lrange(names.undo(old), 0, -1)[::2]
            for at in range(0, len(changed), _NAMES_AT_ONCE):
                some = changed[at : at + _NAMES_AT_ONCE]
                client.unlink(*(names.was(old).encode() + key for key in some))
            client.unlink(names.undo(old))
            client.srem(names.undos, old)

    def _quietly(self, work: Callable[[Any], None]) -> None:
        try:
            self._within(work)
        except CleancutError as failure:
            # The epoch is published; leftovers change no result.
            _LOG.warning("%s: leftovers could not be deleted: %s", self.name, failure)

    def epochs(self, query_id: str) -> InfoList[LedgerEpoch]:
        """The published epochs of a query, as far back as they are recorded.

        Args:
            query_id: Spark's query id.

        Raises:
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
        """
        names = self._names_of(query_id)
        document = self._within(lambda client: self._read(client, names)[1])
        return InfoList(self._ledger.published(document, query_id))

    def mark_unpublished(self, query_id: str, after: int) -> int:
        """Marks the epochs after one as unpublished, after you have undone their rows.

        For a query that rolled back further than the sink could undo. The query must not run.

        Args:
            query_id: Spark's query id.
            after: the last epoch that remains published; -1 marks all.

        Returns:
            The number of marked epochs.
        """
        names, marked = self._names_of(query_id), 0

        def work(client: Any, document: LedgerDocument) -> Callable[[bytes], Any]:
            nonlocal marked
            marked = self._ledger.mark_unpublished_in(document, query_id, after)
            return lambda before: client.eval(
                TAKE_OVER,
                2,
                *(names.ledger, names.undos),
                *(before, document.encode(), self._options.kind),
            )

        self._changing(work, names)
        return marked

    def _changing(
        self,
        decide: Callable[[Any, LedgerDocument], Callable[[bytes], Any] | None],
        names: _Names | None = None,
    ) -> Any:
        """Reads the ledger, decides, and runs a script if the ledger is still unchanged then.

        Args:
            decide: returns a function that calls the script with the old ledger; None if there is
                nothing to do.
            names: names of the query; None is the current run.

        Returns:
            The result of the script; None if there was nothing to do.
        """

        def once(client: Any) -> Any:
            # A concurrent change repeats the loop; a fenced run gets its error from `decide`.
            while True:
                before, document = self._read(client, names)
                call = decide(client, document)
                result = None if call is None else call(before)
                if result is None or result[0] != b"changed":
                    return result

        return self._within(once)

    def _read(self, client: Any, names: _Names | None = None) -> tuple[bytes, LedgerDocument]:
        names_read = names or self._of_run()
        body = client.get(names_read.ledger)
        document = LedgerDocument.decode(body, f"{names_read.ledger} of {self._server.label}")
        return body or b"", document

    def _within(self, work: Callable[[Any], Result]) -> Result:
        return self._server.within(work, self._retry_for_s, self._ledger.sink)

    def _of_run(self) -> _Names:
        assert self._names is not None, "begin() must be called first"
        return self._names

    def _names_of(self, query_id: str) -> _Names:
        return _Names(self._options.key or self._options.stream, query_id)

    def _refusal(self, reason: str) -> Exception:
        return error_of("CLEANCUT_SINK_REFUSED", sink=self._ledger.sink, reason=reason)
