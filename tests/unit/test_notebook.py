"""The notebook of the documentation runs, and shows the numbers that the API returns."""

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

from cleancut import Checkpoint
from cleancut.types import InfoList
from tests.support.patience import PATIENCE_S
from tests.unit.checkpoint_files import CheckpointFiles
from tests.unit.cut_files import CutFiles
from tests.unit.rendered_html import RenderedHtml
from tests.vectors.cut_writer import channel, costs
from tests.vectors.frame_cases import put

NOTEBOOK = Path(__file__).parents[2] / "docs/notebooks/inspect.ipynb"
EPOCHS = 14
# Values of the second run.
FIRST_OF_SECOND = 9
TIMEOUT_S = PATIENCE_S


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of a query: skewed, slower with each epoch, and with in-flight rows at the end."""
    files = CutFiles(CheckpointFiles(tmp_path_factory.mktemp("busy") / "checkpoint"))
    for epoch in range(EPOCHS):
        many = [put(at, f"name-{at}", epoch, at / 3) for at in range(20 + 40 * (epoch % 5))]
        timings = {"epochMs": 200 + 20 * epoch, "gateMs": 40 + epoch, "previousCutMs": 3}
        generation = 1 if epoch < FIRST_OF_SECOND else 2
        live = 20 + 40 * min(epoch, 4)
        few = [put(1_000_000, "few", epoch, 0.5)]
        counted = (many, live), (few, 1)
        files.commit(*counted, generation=generation, timings=timings, costs=costs())
    late = {0: put(7, "late", 1, 0.5), 1: put(8, "later", 2, 1.5)}
    late_channel = channel(0, rowsInFlight=2)
    files.in_flight(
        0, late, keys=(live, 1), generation=2, mode="unaligned", channels=[late_channel]
    )
    for epoch in (5, EPOCHS):
        Checkpoint(files.location).test_restore(epoch)
    return files.location


def files_of(location: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in location.rglob("*") if path.is_file()}


def executed(location: Path | None = None) -> list[NotebookNode]:
    """Returns the cells of the notebook after a run, on its own checkpoint or on ours."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    (parameters,) = [
        cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])
    ]
    if location is not None:
        parameters.source = f"location = {str(location)!r}"
    where = {"metadata": {"path": str(NOTEBOOK.parent)}}
    cells: list[NotebookNode] = (
        NotebookClient(notebook, timeout=TIMEOUT_S, resources=where).execute().cells
    )
    return cells


def shown_by(cells: list[NotebookNode]) -> Mapping[str, Mapping[str, str]]:
    """Returns the outputs of cells, by media type, for the last line of their code."""
    outputs = [
        (cell.source.splitlines()[-1], cell.outputs) for cell in cells if cell.cell_type == "code"
    ]
    return {line: out.data for line, (*_, out) in [output for output in outputs if output[1]]}


def assert_same(html: str, infos: InfoList[Any]) -> None:
    """Checks that the table shows each integer of the API's values, in its row and column."""
    page = RenderedHtml(html)
    page.labelled_drawings()
    compared = 0
    for name in page.names:
        values = [info[name] for info in infos.to_dicts()]
        if all(isinstance(value, int) for value in values):
            texts = {True: "yes", False: "no"}
            shown = [texts[value] if isinstance(value, bool) else str(value) for value in values]
            assert page.column(name) == shown, name
            compared += 1
    assert compared > 1
    assert len(page.rows) == len(infos) > 0


@pytest.fixture(scope="module")
def shown(busy: Path) -> Mapping[str, Mapping[str, str]]:
    before = files_of(busy)
    outputs = shown_by(executed(busy))
    assert files_of(busy) == before, "the notebook says that it writes nothing"
    return outputs


def test_the_tables_of_the_notebook_have_the_numbers_of_the_api(
    busy: Path, shown: Mapping[str, Mapping[str, str]]
) -> None:
    checkpoint = Checkpoint(busy)
    lists: dict[str, InfoList[Any]] = {
        "cuts": checkpoint.cuts(),
        "history": checkpoint.history(),
        "stores": checkpoint.stores(),
        "checkpoint.skew()": checkpoint.skew(),
        "checkpoint.families(operator)": checkpoint.families(0),
        "checkpoint.diff(first)": checkpoint.diff(0),
        "checkpoint.restore_tests()": checkpoint.restore_tests(),
    }
    for line, infos in lists.items():
        assert_same(shown[line]["text/html"], infos)
        assert shown[line]["text/plain"] == repr(infos)
    cut = RenderedHtml(shown["checkpoint.cut()"]["text/html"])
    assert cut.column("bytes") == [str(store.bytes) for store in checkpoint.cut().stores]
    (a_day, *_) = checkpoint.cost_per_day()
    costs_shown = RenderedHtml(shown["checkpoint.cost_per_day()"]["text/html"])
    assert costs_shown.column("usd")[0] == f"{a_day.usd:.6g}"


def test_the_rows_of_the_notebook_are_those_of_the_api(
    busy: Path, shown: Mapping[str, Mapping[str, str]]
) -> None:
    checkpoint = Checkpoint(busy)

    def column(line: str, name: str) -> list[str]:
        return RenderedHtml(shown[line]["text/html"]).column(name)

    first = checkpoint.state(0, limit=5)["key"].to_pylist()
    assert column("rows.flatten().to_pandas()", "key.name") == [row["name"] for row in first]
    looked_up = "checkpoint.lookup(operator, key).flatten().to_pandas()"
    assert column(looked_up, "key.name") == [first[0]["name"]]
    changed = "checkpoint.changes(operator, first).read_all().slice(0, 5).flatten().to_pandas()"
    changes = checkpoint.changes(0, 0).read_all().slice(0, 5)
    assert column(changed, "change") == changes["change"].to_pylist()
    in_flight = "checkpoint.in_flight(operator).flatten().to_pandas()"
    assert column(in_flight, "row.sum") == ["0.5", "1.5"]


def test_cuts_are_drawn_by_time_and_size(
    busy: Path, shown: Mapping[str, Mapping[str, str]]
) -> None:
    cuts = Checkpoint(busy).cuts()
    drawing, *_ = RenderedHtml(shown["cuts"]["text/html"]).labelled_drawings()
    marks = drawing.findall("g")
    assert len(marks) == len(cuts) == EPOCHS + 1
    texts = [mark.findtext("title") or "" for mark in marks]
    for cut, text in zip(cuts, texts, strict=True):
        assert f"epoch {cut.epoch}," in text
        assert f"{cut.bytes} bytes" in text
    lines = [mark.find("line") for mark in marks]
    heights = [
        float(line.get("y1", 0)) - float(line.get("y2", 0)) for line in lines if line is not None
    ]
    largest = max(cut.bytes for cut in cuts)
    tallest = heights[cuts.index(max(cuts, key=lambda cut: cut.bytes))]
    assert heights == [
        pytest.approx(max(cut.bytes / largest * tallest, 3), abs=0.1) for cut in cuts
    ]
    # One label per second; the last cut is the one with in-flight rows.
    places = [float((line.get("x1") or "").rstrip("%")) for line in lines if line is not None]
    steps = [after - before for before, after in pairwise(places)]
    assert steps == [pytest.approx(98 / EPOCHS, abs=0.02)] * EPOCHS
    dots = [at for at, mark in enumerate(marks) if mark.find("circle") is not None]
    assert dots == [EPOCHS]
    labels = [text.text for text in drawing.findall("text")]
    assert [label for label in labels if label and "generation" in label] == [
        "generation 1",
        "generation 2",
    ]


def test_the_course_of_epochs_and_the_sizes_of_stores_are_drawn(
    busy: Path, shown: Mapping[str, Mapping[str, str]]
) -> None:
    history = RenderedHtml(shown["history"]["text/html"]).labelled_drawings()
    labels = [drawing.get("aria-label") for drawing in history]
    last = 200 + 20 * (EPOCHS - 1)
    assert f"duration_ms: {EPOCHS} values from 200 to {last}, the last {last}" in labels
    stores = Checkpoint(busy).stores()
    bars = [drawing.find("rect") for drawing in RenderedHtml(shown["stores"]["text/html"]).drawings]
    widths = [float(bar.get("width", 0)) for bar in bars if bar is not None]
    largest = max(store.bytes for store in stores)
    assert widths == [
        pytest.approx(store.bytes / largest * max(widths), abs=0.1) for store in stores
    ]
    (skew,) = Checkpoint(busy).skew()
    assert [partition.partition for partition in skew.sizes] == [0, 1]
    assert sum(partition.bytes for partition in skew.sizes) == skew.bytes
    (spread,) = RenderedHtml(shown["checkpoint.skew()"]["text/html"]).labelled_drawings()
    titles = [bar.findtext("title") for bar in spread.findall("rect")]
    assert titles == [
        f"partition {partition.partition}: {partition.bytes}" for partition in skew.sizes
    ]


def test_the_notebook_runs_unchanged() -> None:
    """Users of the repository open it and run all of it."""
    shown = shown_by(executed())
    assert "18 cuts, of epochs 15-32" in RenderedHtml(shown["cuts"]["text/html"]).words
    assert RenderedHtml(shown["rows.flatten().to_pandas()"]["text/html"]).names[1:] == [
        "key.k",
        "value.count",
        "value.sum",
        "partition",
    ]


def test_the_notebook_is_stored_without_outputs() -> None:
    """Its outputs depend on the machine, and a change of its text must be a readable diff."""
    text = NOTEBOOK.read_text(encoding="utf-8")
    notebook = json.loads(text)
    nbformat.validate(notebook)
    assert text == json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(code) > 10
    assert all((cell["outputs"], cell["execution_count"]) == ([], None) for cell in code)
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert notebook["metadata"]["language_info"] == {"name": "python"}
