"""The targets of all sinks, which a campaign of kills writes and a reader polls.

A target has a *place*, a text by which another process makes its sink. A reader sees a target
without Spark, all of it at one moment.
"""

import contextlib
import io
import json
import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import DataFrame

from cleancut.sinks import (
    Batch,
    EpochFiles,
    EpochSink,
    KafkaSink,
    PostgresSink,
    RedisSink,
    SqlLedger,
    SqlSink,
    Transaction,
    TwoPhaseSink,
    exactly_once,
)
from demo.postgres_server import PostgresServer, postgres_server
from tests.support.kafka_server import KafkaBroker, kafka_broker
from tests.support.lakes import OfDelta, OfIceberg
from tests.support.mariadb import MariaDbServer, mariadb_server
from tests.support.patience import PATIENCE_S
from tests.support.redis_server import RedisProcess, redis_server
from tests.support.s3_servers import VERSITYGW, S3Server, s3proxy, versitygw
from tests.support.sink_places import Bucket
from tests.support.two_phases import Directories

# The key, the number of its events, and the sum of their values.
Row = tuple[int, int, int]
COLUMNS = ("k", "n", "v")
# Keys of the events.
KEYS = range(40)
_TABLE = "totals"


class Killable(Protocol):
    """A server that can be killed and started again."""

    def kill(self) -> None: ...

    def start(self) -> None: ...


class Target(ABC):
    """The target of a sink.

    Attributes:
        is_keyed: whether it has the latest row of each key instead of all rows.
        keeps_order: whether rows are read in the order in which they were published.
        place: the address for another process.
        server: the server of the target; None if none is killed.
        environment: variables of the processes that access the target.
    """

    is_keyed: ClassVar[bool] = False
    keeps_order: ClassVar[bool] = False
    environment: Mapping[str, str] = {}

    def __init__(self, place: str, server: Killable | None = None) -> None:
        self.place = place
        self.server = server

    @abstractmethod
    def rows(self) -> list[Row]:
        """Returns all rows at one moment; none without a table."""


def _as_row(fields: Mapping[str, Any]) -> Row:
    k, n, v = (int(fields[name]) for name in COLUMNS)
    return k, n, v


class _Files(Target):
    keeps_order = True

    def rows(self) -> list[Row]:
        files = [self._lines(path) for path in EpochFiles(self.place).paths()]
        return [_as_row(json.loads(line)) for lines in files for line in lines]

    def _lines(self, path: str) -> list[str]:
        return Path(path.removeprefix("file:")).read_text().splitlines()


class _BucketFiles(Target):
    keeps_order = True

    def __init__(self, server: S3Server, *, is_killed: bool) -> None:
        self._bucket = Bucket(server.endpoint, "totals")
        super().__init__(self._bucket.location, server if is_killed else None)
        self.endpoint = server.endpoint
        self.environment = server.environment | {"CLEANCUT_TEST_ENDPOINT": server.endpoint}

    def rows(self) -> list[Row]:
        paths = EpochFiles(self.place).paths(endpoint=self.endpoint, region="us-east-1")
        names = [path.removeprefix(f"{self.place}/") for path in paths]
        lines = [line for name in names for line in io.BytesIO(self._bucket.read(name))]
        return [_as_row(json.loads(line)) for line in lines]


class _TwoPhases(Target):
    def rows(self) -> list[Row]:
        return [(k, n, v) for k, n, v in Directories(Path(self.place) / "shown").read()]


class _SqLite(Target):
    def rows(self) -> list[Row]:
        path = Path(self.place)
        if not path.exists():
            return []

        with contextlib.closing(sqlite3.connect(path, timeout=PATIENCE_S)) as connection:
            named = "SELECT 1 FROM sqlite_master WHERE name = ?"
            if not connection.execute(named, [_TABLE]).fetchall():
                return []
            return connection.execute(f"SELECT {', '.join(COLUMNS)} FROM {_TABLE}").fetchall()


class _MariaDb(Target):
    is_keyed = True

    def __init__(self, server: MariaDbServer) -> None:
        super().__init__(server.url, server)
        self._server = server

    def rows(self) -> list[Row]:
        return self._server.rows(f"SELECT {', '.join(COLUMNS)} FROM {_TABLE}")


class _Postgres(Target):
    def __init__(self, server: PostgresServer) -> None:
        super().__init__(server.dsn, server)
        self._server = server

    def rows(self) -> list[Row]:
        selected = self._server.rows(f"SELECT {', '.join(COLUMNS)} FROM {_TABLE}")
        return [(k, n, v) for k, n, v in selected]


class _PostgresKeys(_Postgres):
    is_keyed = True


class _Parquet(Target):
    def rows(self) -> list[Row]:
        files = sorted(Path(self.place).glob("part-*.parquet"))
        return [_as_row(row) for path in files for row in pq.read_table(path).to_pylist()]


class _Redis(Target):
    is_keyed = True

    def __init__(self, server: RedisProcess) -> None:
        super().__init__(server.url, server)
        self._server = server

    def rows(self) -> list[Row]:
        with contextlib.closing(self._server.client()) as client:
            moment = client.pipeline(transaction=True)
            for key in KEYS:
                moment.hgetall(f"{_TABLE}:{key}")
            return [_as_row(fields) for fields in moment.execute() if fields]


class _Kafka(Target):
    keeps_order = True

    def __init__(self, broker: KafkaBroker) -> None:
        super().__init__(broker.servers, broker)
        self._broker = broker
        # With several partitions a reader may see the end of a transaction in one of them first.
        broker.make_topic(_TABLE, partitions=1)

    def rows(self) -> list[Row]:
        return [_as_row(json.loads(record.value())) for record in self._broker.records(_TABLE)]


class _Delta(Target):
    def rows(self) -> list[Row]:
        lake = OfDelta(Path(self.place))
        table = pa.table(DeltaTable(lake.path).to_pyarrow_table()) if lake.exists() else None
        return [] if table is None else [_as_row(fields) for fields in table.to_pylist()]


class _Iceberg(Target):
    def rows(self) -> list[Row]:
        return [_as_row(fields) for fields in OfIceberg(Path(self.place)).rows()]


class _Records(KafkaSink):
    """Encodes each row as JSON."""

    def stage(self, rows: DataFrame, batch: Batch) -> str:
        return super().stage(rows.selectExpr("to_json(struct(*)) AS value"), batch)


def _function(place: str) -> EpochSink:
    @exactly_once(ledger=SqlLedger(f"sqlite:///{place}", _TABLE))
    def write(rows: DataFrame, _: int, transaction: Transaction) -> None:
        transaction.run(f"CREATE TABLE IF NOT EXISTS {_TABLE} (k INT, n INT, v INT)")
        for row in rows.collect():
            transaction.run(f"INSERT INTO {_TABLE} VALUES (:k, :n, :v)", **row.asDict())

    return write


class _Naive(EpochSink):
    """Appends the rows of each epoch without a ledger."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._staged: list[Row] = []

    @property
    def name(self) -> str:
        return f"naive {self._place}"

    def published(self, batch: Batch) -> str | None:
        return None

    def stage(self, rows: DataFrame, batch: Batch) -> str:
        self._staged = [_as_row(row.asDict()) for row in rows.collect()]
        return ""

    def publish(self, handle: str, batch: Batch) -> None:
        with contextlib.closing(sqlite3.connect(self._place, timeout=PATIENCE_S)) as connection:
            connection.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE} (k INT, n INT, v INT)")
            connection.executemany(f"INSERT INTO {_TABLE} VALUES (?, ?, ?)", self._staged)
            connection.commit()

    def leaves_record(self, handle: str) -> bool:
        return False


# For the test of the campaign itself.
NAIVE = "a sink without a ledger"

_SINKS: dict[str, Callable[[str], EpochSink]] = {
    "EpochFiles": lambda place: EpochFiles(place, "json"),
    "EpochFiles in a bucket": lambda place: EpochFiles(place, "json"),
    "TwoPhaseSink": lambda place: TwoPhaseSink(
        Directories(Path(place) / "shown"), decisions=Path(place) / "decisions"
    ),
    "SqlSink on SQLite": lambda place: SqlSink(f"sqlite:///{place}", _TABLE),
    "exactly_once": _function,
    "SqlSink on MariaDB": lambda place: SqlSink(place, _TABLE, keys="k"),
    "PostgresSink": lambda place: PostgresSink(place, _TABLE),
    "RedisSink": lambda place: RedisSink(place, key=f"{_TABLE}:{{k}}"),
    "KafkaSink": lambda place: _Records(place, topic=_TABLE),
    "DeltaSink": lambda place: OfDelta(Path(place)).sink(),
    "IcebergSink": lambda place: OfIceberg(Path(place)).sink(),
    NAIVE: _Naive,
}
# Targets with a server, and targets without one.
SERVERS = (
    "EpochFiles in a bucket",
    "SqlSink on MariaDB",
    "PostgresSink",
    "RedisSink",
    "KafkaSink",
)
LOCAL = tuple(name for name in _SINKS if name not in (NAIVE, *SERVERS))


def sink_at(name: str, place: str) -> EpochSink:
    """Returns the sink of a target, in any process."""
    return _SINKS[name](place)


def _in_directory(make: Callable[[str], Target], part: str = "") -> Callable[[Path], Any]:
    @contextlib.contextmanager
    def made(home: Path) -> Iterator[Target]:
        yield make(str(home / part) if part else str(home))

    return made


@contextlib.contextmanager
def _bucket(home: Path) -> Iterator[Target]:
    # s3proxy may lose acknowledged writes when it is killed.
    made = versitygw(home) if VERSITYGW else s3proxy(home)
    with made as server, mock.patch.dict(os.environ, server.environment):
        yield _BucketFiles(server, is_killed=VERSITYGW is not None)


@contextlib.contextmanager
def _mariadb(_: Path) -> Iterator[Target]:
    with mariadb_server() as server:
        yield _MariaDb(server)


def _postgres(kind: type[_Postgres]) -> Callable[[Path], Any]:
    @contextlib.contextmanager
    def made(_: Path) -> Iterator[Target]:
        with postgres_server() as server:
            yield kind(server)

    return made


@contextlib.contextmanager
def _redis(_: Path) -> Iterator[Target]:
    with redis_server() as server:
        yield _Redis(server)


@contextlib.contextmanager
def _kafka(_: Path) -> Iterator[Target]:
    with kafka_broker() as broker:
        yield _Kafka(broker)


_TARGETS: dict[str, Callable[[Path], contextlib.AbstractContextManager[Target]]] = {
    "EpochFiles": _in_directory(_Files),
    "EpochFiles in a bucket": _bucket,
    "TwoPhaseSink": _in_directory(_TwoPhases),
    "SqlSink on SQLite": _in_directory(_SqLite, "rows.db"),
    "exactly_once": _in_directory(_SqLite, "rows.db"),
    "SqlSink on MariaDB": _mariadb,
    "PostgresSink": _postgres(_Postgres),
    "RedisSink": _redis,
    "KafkaSink": _kafka,
    "DeltaSink": _in_directory(_Delta),
    "IcebergSink": _in_directory(_Iceberg),
    NAIVE: _in_directory(_SqLite, "rows.db"),
    # Targets of functions without a sink.
    "PostgreSQL rows": _postgres(_Postgres),
    "PostgreSQL keys": _postgres(_PostgresKeys),
    "Parquet": _in_directory(_Parquet, "rows"),
    "Delta": _in_directory(_Delta),
    "Iceberg": _in_directory(_Iceberg),
}


def target_at(name: str, home: Path, stack: contextlib.ExitStack) -> Target:
    """Creates a target with its directory and its server, which the stack closes."""
    home.mkdir(exist_ok=True)
    return stack.enter_context(_TARGETS[name](home))
