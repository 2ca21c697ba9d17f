"""Reads the records that drivers have written about epochs, without a driver."""

import io
import json
import re
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from cleancut._checkpoint.read.epoch_info import PHASES
from cleancut._checkpoint.read.history_files import recorded
from cleancut._format.layout import parse_history_name
from cleancut._storage.directory import Directory
from cleancut.errors import CorruptedError, RequestError
from cleancut.types import EpochHistory
from tests.support.documented import ROOT

RECORD = Path(__file__).parents[1] / "vectors" / "history" / "record.json"
BEGIN_MS = 1_764_288_000_000


def record(epoch: int, *, generation: int = 1, **fields: Any) -> dict[str, Any]:
    """Returns a record of an epoch that was committed this many seconds after the first."""
    record: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    times = {"epoch": epoch, "generation": generation, "writtenMs": BEGIN_MS + epoch * 1000}
    return record | times | fields


class History:
    """Files of a history in a directory."""

    def __init__(self, home: Path) -> None:
        self._home, self._files = home / "history", 0
        self._home.mkdir()
        self.root = Directory(pa.fs.LocalFileSystem(), str(home))

    def write(self, records: Sequence[dict[str, Any]]) -> Path:
        """Writes a file of these records."""
        epochs = [record["epoch"] for record in records]
        texts = pa.array([json.dumps(record) for record in records])
        out = io.BytesIO()
        pq.write_table(pa.table({"epoch": epochs, "record": texts}), out, compression="zstd")
        self._files += 1
        name = f"{epochs[0]:020d}-{max(epochs):020d}-{self._files:032x}.parquet"
        (self._home / name).write_bytes(out.getvalue())
        return self._home / name


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path)


def test_a_record_is_read_as_the_format_specifies(history: History) -> None:
    history.write([record(41)])
    (info,) = recorded(history.root, 0)
    assert (info.epoch, info.generation, info.stores) == (41, 1, 5)
    assert info.written == datetime.fromtimestamp(BEGIN_MS / 1000 + 41, UTC)
    assert (info.duration_ms, info.commit_ms, info.cut_ms) == (2300, 40, 9)
    assert info.cut_lag_ms == 49
    assert (info.mode, info.in_flight_rows) == ("unaligned", 12)
    assert (info.alignment_ms, info.barrier_to_capture_ms) == (1900, 70)
    assert info.costs is not None
    assert (info.costs.all.sent_ms, info.costs.all.waited_ms) == (111, 120)
    assert info.slow is not None
    assert (info.slow.kind, info.slow.typical_ms) == ("straggler", 320)
    assert "cutMs" not in info.timings


def test_a_record_has_the_whole_epoch(history: History) -> None:
    history.write([record(41)])
    (info,) = recorded(history.root, 0)
    assert info.phases == {
        "source": 5,
        "planning": 10,
        "map side": 15,
        "state operators": 2220,
        "sink": 4,
        "commit": 53,
        "other": 5,
    }
    # The write of the cut and the ownership check follow the measured duration.
    assert sum(info.phases.values()) == 2300 + 9 + 3
    first, second = info.stages
    assert (first.stage, first.phase, first.tasks, first.ms) == (17, "map side", 2, 14)
    assert first.operators == ("MicroBatchScan", "BatchEvalPython", "Exchange")
    assert second.phase == "state operators"
    assert info.operator_names == {"0": "stateStoreSave"}
    # Arrow has no structs with numbers as names.
    (row,) = EpochHistory([info]).to_arrow().to_pylist()
    assert row["operator_names"] == {"0": "stateStoreSave"}
    assert row["phases"]["state operators"] == 2220
    assert info.in_flight_growth is not None
    assert info.in_flight_growth.startswith("in-flight rows grew from 3 to 120 over the last 8")


def test_the_printed_history_explains_slow_epochs_and_growth(history: History) -> None:
    history.write([record(epoch) for epoch in range(5)])
    printed = " ".join(str(EpochHistory(recorded(history.root, 0))).split())
    assert "state operators 96%" in printed
    # Of the last slow epochs only, because each takes lines.
    assert re.findall(r"Epoch (\d) was slow \(straggler\), 320 ms are usual", printed) == [
        "2",
        "3",
        "4",
    ]
    assert "In-flight rows grew from 3 to 120 over the last 8 epochs" in printed
    address = re.search(r"https://\S+$", printed)
    assert address is not None
    site = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), yaml.BaseLoader)
    page = address[0].removeprefix(site["site_url"]).removesuffix(".html")
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert "## Phases of an epoch" in text
    # The tab links to a section of the same page.
    assert "## Why an epoch was slow" in text
    terms = next((ROOT / "jvm/spark/src/main").rglob("ui/Terms.scala")).read_text(encoding="utf-8")
    assert f'val DocsUrl = "{address[0]}"' in terms


def test_the_phases_are_those_of_the_driver() -> None:
    source = ROOT / "jvm/core/src/main/scala/io/cleancut/history/EpochPhase.scala"
    declared = re.findall(
        r'EpochPhase\(\s*"([a-z ]+)",.*?timing\(([^)]+)\)', source.read_text(), re.DOTALL
    )
    assert {name: tuple(re.findall(r'"(\w+)"', keys)) for name, keys in declared[:6]} == PHASES


def test_absent_fields_are_none(history: History) -> None:
    few = {
        key: value for key, value in record(1).items() if key in ("version", "epoch", "writtenMs")
    }
    history.write([few])
    (info,) = recorded(history.root, 0)
    assert (info.duration_ms, info.cut_ms, info.cut_lag_ms) == (None, None, None)
    assert (info.costs, info.slow) == (None, None)
    assert info.mode == "aligned"


def test_epochs_are_read_since_a_number_or_a_time(history: History) -> None:
    for first in range(0, 40, 10):
        history.write([record(epoch) for epoch in range(first, first + 10)])
    read = recorded(history.root, 25)
    assert [info.epoch for info in read] == list(range(25, 40))
    since = datetime.fromtimestamp(BEGIN_MS / 1000, UTC) + timedelta(seconds=25)
    assert recorded(history.root, since) == read


def test_an_epoch_in_two_files_is_returned_once(history: History) -> None:
    history.write([record(0), record(1)])
    history.write([record(2), record(3)])
    history.write([record(epoch) for epoch in range(4)])
    assert [info.epoch for info in recorded(history.root, 0)] == [0, 1, 2, 3]


def test_the_later_run_of_a_repeated_epoch_counts(history: History) -> None:
    """A later generation replaces all epochs of earlier ones after its first epoch."""
    history.write([record(epoch) for epoch in range(10)])
    history.write([record(epoch, generation=3) for epoch in (6, 7)])
    history.write([record(epoch, generation=2) for epoch in (5, 6, 7, 8)])
    runs = [(info.epoch, info.generation) for info in recorded(history.root, 0)]
    assert runs == [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (6, 3), (7, 3)]


def test_foreign_names_are_ignored(history: History, tmp_path: Path) -> None:
    history.write([record(0)])
    (tmp_path / "history" / "notes.parquet").write_bytes(b"x")
    assert [info.epoch for info in recorded(history.root, 0)] == [0]
    assert parse_history_name("history/notes.parquet") is None
    assert recorded(Directory(pa.fs.LocalFileSystem(), str(tmp_path / "none")), 0) == []


def test_a_file_merged_during_the_read_is_read_again(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = history.write([record(0)])
    read = Directory.read

    def merged(self: Directory, name: str) -> bytes:
        if old.exists():
            history.write([record(0), record(1)])
            old.unlink()
        return read(self, name)

    monkeypatch.setattr(Directory, "read", merged)
    assert [info.epoch for info in recorded(history.root, 0)] == [0, 1]


def test_a_corrupted_file_is_named(history: History) -> None:
    file = history.write([record(0)])
    data = file.read_bytes()
    damaged = [data[: len(data) // 2], b"", data[:-8] + b"\0" * 8]
    for bytes_ in damaged:
        file.write_bytes(bytes_)
        with pytest.raises(CorruptedError) as raised:
            recorded(history.root, 0)
        assert raised.value.error_id == "CLEANCUT_HISTORY_CORRUPTED"
        assert file.name in str(raised.value)
    shutil.rmtree(file.parent)
    file.parent.mkdir()
    history.write([record(0, writtenMs="x")])
    with pytest.raises(CorruptedError, match="writtenMs"):
        recorded(history.root, 0)


def test_a_later_version_is_refused(history: History) -> None:
    history.write([record(0, version=2)])
    with pytest.raises(RequestError) as raised:
        recorded(history.root, 0)
    assert raised.value.error_id == "CLEANCUT_FORMAT_UNKNOWN"
