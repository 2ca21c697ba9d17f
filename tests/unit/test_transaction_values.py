"""Values that `Transaction.run` binds: on SQLite, and as sent to PostgreSQL."""

import datetime
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cleancut.sinks._tables.postgres import _PostgresTransaction
from cleancut.sinks._tables.sql import SqlDatabase

UTC = datetime.UTC
MOMENT = datetime.datetime(2024, 3, 31, 2, 30, 0, 123456)
NAME = uuid.UUID(int=7)
ON_SQLITE = [
    *(None, True, 7, -(2**63), 1.5, "ä ''", b"\x00\xff"),
    *(Decimal("12345678901234567890.123456"), MOMENT, MOMENT.date()),
]
# By value: its form in the statement, and the bound parameters.
ON_POSTGRES: list[tuple[Any, str, list[Any]]] = [
    (None, "NULL", []),
    (True, "CAST($1 AS boolean)", [True]),
    (7, "CAST($1 AS bigint)", [7]),
    (2**70, "CAST(CAST($1 AS text) AS numeric)", [str(2**70)]),
    (1.5, "CAST($1 AS double precision)", [1.5]),
    ("a", "CAST($1 AS text)", ["a"]),
    (b"\x00", "CAST($1 AS bytea)", [b"\x00"]),
    (Decimal("1.50"), "CAST(CAST($1 AS text) AS numeric)", ["1.50"]),
    (MOMENT, "CAST(CAST($1 AS text) AS timestamp)", ["2024-03-31 02:30:00.123456"]),
    (
        MOMENT.replace(tzinfo=UTC),
        "CAST(CAST($1 AS text) AS timestamptz)",
        ["2024-03-31 02:30:00.123456+00:00"],
    ),
    (MOMENT.date(), "CAST(CAST($1 AS text) AS date)", ["2024-03-31"]),
    (NAME, "CAST(CAST($1 AS text) AS uuid)", [str(NAME)]),
    ([1, 2], "$1", [[1, 2]]),
]


@pytest.mark.parametrize("value", ON_SQLITE, ids=repr)
def test_values_round_trip_through_sqlite(value: Any, tmp_path: Path) -> None:
    kinds = {Decimal: "TEXT", bytes: "BLOB"}
    with SqlDatabase(f"sqlite:///{tmp_path}/db").transaction() as opened:
        opened.run(f"CREATE TABLE held (v {kinds.get(type(value), '')})")
        opened.run("INSERT INTO held VALUES (:v)", v=value)
        ((stored,),) = opened.run("SELECT v FROM held WHERE v IS :v", v=value)
    if isinstance(value, (Decimal, datetime.date)):
        stored = (
            type(value)(stored) if isinstance(value, Decimal) else type(value).fromisoformat(stored)
        )
    assert stored == value


class Cursor:
    """Records the statement that it executes."""

    description = None

    def execute(self, sql: str, bound: Any) -> None:
        self.executed = sql, list(bound or ())


@pytest.mark.parametrize(("value", "place", "bound"), ON_POSTGRES, ids=str)
def test_values_have_the_type_of_the_server(value: Any, place: str, bound: list[Any]) -> None:
    cursor: Any = Cursor()
    _PostgresTransaction(None, cursor).run("INSERT INTO t VALUES (:v, ':v', 1::int)", v=value)
    assert cursor.executed == (f"INSERT INTO t VALUES ({place}, ':v', 1::int)", bound)
