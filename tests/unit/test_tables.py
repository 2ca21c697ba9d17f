"""Tables of results on a terminal of 80 columns."""

import dataclasses
import inspect
import typing
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest

import cleancut.dataflow
import cleancut.sinks
import cleancut.types
from cleancut._display import tables
from cleancut._display.info_list import InfoList
from cleancut._provider import PROVIDER_CLASS

NOW = datetime(2026, 11, 26, 8, 0, 1, tzinfo=UTC)
LOCATION = "s3://bucket/checkpoints/orders-by-shop"
SENTENCE = "it has consumed epoch 12 of orders, which the cut does not include"

# The types that commands and methods list, with the columns that 80 characters must show.
WANTED = {
    "ChannelReader": ("query_id", "checkpoint", "oldest", "newest"),
    "CutInfo": ("epoch", "written", "mode", "stores", "bytes"),
    "DailyCost": ("store", "usd"),
    "DataflowCut": ("number", "written", "names", "epochs"),
    "DataflowEdge": ("sender", "receiver", "consumed", "sent"),
    "DataflowInFlight": ("sender", "receiver", "epochs", "rows", "bytes"),
    "DataflowMember": ("name", "epoch", "written", "reason"),
    "DiffInfo": ("operator", "store", "family", "added", "changed", "removed"),
    "FamilyInfo": ("name", "keys", "encoding"),
    "FrameInfo": ("operator", "partition", "store", "version", "kind", "keys", "file_bytes"),
    "LedgerEpoch": ("epoch", "rows", "handle", "published_ms"),
    "MemberAge": ("number", "member", "epoch", "lag_ms", "reason"),
    "OwnerInfo": ("generation", "state", "started", "host"),
    "PublishedEpoch": ("epoch", "rows", "files", "bytes", "published"),
    "ReplicaInfo": ("epoch", "lag_epochs", "lag_ms", "objects", "bytes"),
    "ReplicaStatus": ("location", "epoch", "copied", "lag_epochs", "lag_ms"),
    "RestoreTest": ("epoch", "tested", "stores", "rows"),
    "SavepointInfo": ("name", "epoch", "written"),
    "SkewInfo": ("operator", "store", "partitions", "largest", "factor"),
    "StoreInfo": ("operator", "partition", "store", "versions", "bytes"),
}


def sample(name: str, kind: str) -> Any:
    """Returns a value of typical length for a field."""
    if name == "provider":
        return PROVIDER_CLASS
    if name in ("location", "checkpoint", "channel", "target"):
        return LOCATION
    if name in ("reason", "detail", "description"):
        return SENTENCE
    if name.endswith("_id"):
        return "3f2504e0-4f89-11d3-9a0c-0305e82c3301"
    by_kind = {
        "InfoList": InfoList[Any](),
        "datetime": NOW,
        "bool": True,
        "Mapping": {"orders": 12, "counts": None},
        "tuple[str": ("before-upgrade", "nightly"),
        "tuple": (1, 2, 3, 5),
        "float": 1234.5678,
        "int": 1_234_567 if "byte" in name or "row" in name else 120,
    }
    return next((value for part, value in by_kind.items() if part in kind), "counts-by-shop")


def listed(module: ModuleType, name: str) -> InfoList[Any]:
    info = getattr(module, name)
    hints = typing.get_type_hints(info)
    values = {
        item.name: sample(item.name, str(hints[item.name])) for item in dataclasses.fields(info)
    }
    return InfoList([info(**values)])


@pytest.mark.parametrize("name", WANTED)
def test_a_table_fits_80_columns_and_shows_what_is_wanted_most(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    modules = (cleancut.types, cleancut.dataflow, cleancut.sinks)
    module = next(module for module in modules if hasattr(module, name))
    assert inspect.isclass(getattr(module, name))
    table = str(listed(module, name))
    heading = table.partition("\n")[0].split()
    assert set(WANTED[name]) <= set(heading)
    assert max(map(len, table.splitlines())) <= 80
    # Texts of Python: dictionaries, tuples and None.
    assert not {"{", "(1", "('", "None", "True"} & set(table.replace(": ", " ").split())
    assert "'" not in table


def test_values_are_written_as_words() -> None:
    """The cuts of a dataflow were listed as `('nightly',)  {'orders': 12, 'counts': None}`."""
    assert tables.cell({"orders": 12, "counts": None}) == "orders 12, counts"
    assert tables.cell(("nightly", "before-upgrade")) == "nightly, before-upgrade"
    assert [tables.cell(value) for value in (True, False, None, ())] == ["yes", "no", "", ""]


def test_an_empty_column_is_omitted_first_and_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    columns = [
        tables.Column("first", ["x" * 12]),
        tables.Column("empty", [None], rank=1),
        tables.Column("extra", ["y" * 12], rank=2),
    ]
    assert tables.fitting(columns).splitlines()[-1] == "(no room for extra)"


def test_columns_that_are_never_omitted_are_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    table = tables.fitted(["name", "location"], [["orders", LOCATION], ["counts", None]])
    assert max(map(len, table.splitlines())) == 40
    assert "s3://bucket/" in table
    assert tables.fitted(["name"], []) == "(none)"
