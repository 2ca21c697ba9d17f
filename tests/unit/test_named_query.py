"""A query that a command line names, and the errors for a name without one."""

from pathlib import Path
from typing import Any

import pytest

from cleancut import RequestError
from cleancut._query.named_query import named_query, named_writer

SESSION: Any = object()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("orders", "its name must have the form module:function"),
        (":daily", "its name must have the form module:function"),
        ("orders:", "its name must have the form module:function"),
        ("no_such_module_here:daily", "No module named 'no_such_module_here'"),
        ("orders_of_a_test:weekly", "orders_of_a_test has no function weekly"),
        ("orders_of_a_test:daily", "the function returns 7 and no DataFrame"),
        ("orders_of_a_test:raising", "the function has failed: KeyError: 'x'"),
        ("broken_orders:daily", "broken_orders cannot be imported: SyntaxError"),
    ],
)
def test_an_invalid_query_name_is_one_error(
    name: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "def daily(spark): return 7\ndef raising(spark): return {}['x']\n"
    (tmp_path / "orders_of_a_test.py").write_text(code, encoding="utf-8")
    (tmp_path / "broken_orders.py").write_text("def daily(:", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    with pytest.raises(RequestError) as raised:
        named_query(name, SESSION, "/checkpoint")
    assert raised.value.error_id == "CLEANCUT_OPERATION_REFUSED"
    assert reason in str(raised.value)
    assert f"the query {name} is not available" in str(raised.value)


def test_a_function_for_a_writer_must_return_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "writers_of_a_test.py").write_text("def build(spark): return 7\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    with pytest.raises(RequestError, match="returns 7 and no DataStreamWriter") as raised:
        named_writer("writers_of_a_test:build", SESSION, "/checkpoint")
    assert "The operation successor on the checkpoint at /checkpoint" in str(raised.value)
