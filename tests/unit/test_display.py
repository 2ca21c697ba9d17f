"""Tables for terminals and notebooks."""

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from cleancut._display import charts, html
from cleancut._display.tables import Column, ranges, text_table
from cleancut.types import InfoList, StoreInfo
from tests.unit.rendered_html import RenderedHtml


def test_columns_are_aligned_and_numbers_to_the_right() -> None:
    table = text_table(("name", "n"), [("a", 1), ("longer", 1000)])
    assert table.split("\n") == ["name       n", "------  ----", "a          1", "longer  1000"]


def test_long_values_are_truncated() -> None:
    line = text_table(("x",), [("y" * 100,)]).split("\n")[2]
    assert line == "y" * 59 + "…"


def test_html_is_escaped() -> None:
    shown = html.table([Column("<a>", ["<script>&", None])], 'a "table"')
    assert '<th scope="col">&lt;a&gt;</th>' in shown
    assert "<td>&lt;script&gt;&amp;</td><" in shown
    assert "<td></td>" in shown
    assert 'aria-label="a &quot;table&quot;, 2 rows"' in shown
    assert "<p>&lt;none&gt;</p>" in html.text("<none>")
    assert '<th scope="row">&lt;b&gt;</th><td class="free">&amp;</td>' in html.facts([("<b>", "&")])


def test_numbers_are_aligned_if_one_is_missing() -> None:
    shown = html.table([Column("n", [None, 1, 2.5]), Column("ok", [True, False, None])])
    assert shown.count('<td class="number">') == 3
    assert '<th scope="col" class="number">n</th><th scope="col">ok</th>' in shown


def test_a_notebook_shows_the_first_rows_of_a_long_list() -> None:
    stores = InfoList(StoreInfo(0, at, "default", (1,), 1, at) for at in range(1000))
    shown = RenderedHtml(stores._repr_html_())
    assert shown.column("partition") == [str(at) for at in range(200)]
    assert "… and 800 more" in shown.words
    assert len(stores._repr_html_()) < 80_000


def test_bars_are_as_long_as_their_share_of_the_largest() -> None:
    drawn = charts.bars([200, None, 50, 0])
    widths = [RenderedHtml(bar).drawings[0].findall("rect") for bar in drawn if bar]
    assert [float(rect.get("width", -1)) for (rect,) in widths] == [64.0, 16.0, 0.0]
    assert drawn[1] == ""
    assert charts.bars([0, 0]) == ["", ""]
    assert charts.bars([7, None]) == ["", ""]


def test_a_sparkline_has_gaps_for_missing_values() -> None:
    (drawing,) = RenderedHtml(charts.sparkline("ms", [1, 3, None, 2, 2])).labelled_drawings()
    assert drawing.get("aria-label") == "ms: 4 values from 1 to 3, the last 2"
    path = drawing.find("path")
    assert path is not None
    assert "".join(letter for letter in path.get("d", "") if letter.isalpha()) == "MLML"
    assert charts.sparkline("ms", [None, 7, None]) == ""
    flat = charts.sparkline("ms", [5, 5])
    assert "nan" not in flat
    assert "9.0" in flat


def test_a_peak_is_drawn_among_many_values() -> None:
    many = [1.0] * 10_000
    many[4321] = 99.0
    course = charts.sparkline("n", many)
    assert len(course) < 3000
    assert f" {3:.1f}" in course, "its top"
    sizes = [(f"partition {at}", size) for at, size in enumerate(many)]
    (spread,) = RenderedHtml(charts.spread(sizes)).labelled_drawings()
    titles = [bar.findtext("title") for bar in spread.findall("rect")]
    assert "partition 4321: 99" in titles
    assert len(titles) <= 48
    assert "the largest partition 4321 with 99, the median 1" in (spread.get("aria-label") or "")


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0.0, "0"),
        (2.5, "2.5"),
        (0.125, "0.125"),
        (99_999.5, "99999.5"),
        (1_234_567_890, "1234567890"),
    ],
)
def test_a_large_number_has_no_exponent(number: float, shown: str) -> None:
    assert charts.numeral(number) == shown
    assert f">{shown}</td>" in html.courses([("bytes", "", number)])
    drawing = charts.sparkline("bytes", [number, number])
    assert f"2 values from {shown} to {shown}, the last {shown}" in drawing


def test_a_timeline_of_many_marks_keeps_the_tallest_and_highlighted() -> None:
    begin = datetime(2026, 11, 26, tzinfo=UTC)
    marks = [
        charts.Mark(begin + timedelta(seconds=at), at % 977, f"run {at // 2500}", at == 7, f"{at}")
        for at in range(5000)
    ]
    (drawing,) = RenderedHtml(charts.timeline(marks, "all of them")).labelled_drawings()
    drawn = drawing.findall("g")
    assert len(drawn) <= 240
    assert sum(mark.find("circle") is not None for mark in drawn) == 1
    assert [text.text for text in drawing.findall("text")][:2] == ["run 0", "run 1"]
    assert charts.timeline([], "none") == ""
    (alone,) = RenderedHtml(charts.timeline(marks[:1], "one")).labelled_drawings()
    assert [text.text for text in alone.findall("text")] == ["run 0", "2026-11-26", "00:00:00"]


def test_labels_of_a_timeline_do_not_overlap() -> None:
    begin = datetime(2026, 11, 26, tzinfo=UTC)
    marks = [
        charts.Mark(begin + timedelta(seconds=at), 1, f"run {at}", False, "") for at in range(50)
    ]
    (drawing,) = RenderedHtml(charts.timeline(marks, "a run for each")).labelled_drawings()
    labels = [text for text in drawing.findall("text") if (text.text or "").startswith("run")]
    places = [float((label.get("x") or "").rstrip("%")) for label in labels]
    assert len(labels) == 4
    assert min(after - before for before, after in pairwise(places)) >= 24
    assert labels[-1].get("text-anchor") == "end" or places[-1] < 80


@pytest.mark.parametrize("colour", [charts.PLAIN, charts.OTHER])
@pytest.mark.parametrize("background", ["#ffffff", "#1e1e1e", "#111111", "#000000"])
def test_fills_stand_out_from_light_and_dark_themes(colour: str, background: str) -> None:
    """WCAG 2.2, 1.4.11: the parts of a drawing that carry meaning have a contrast of 3:1."""
    lighter, darker = sorted((luminance(colour), luminance(background)), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= 3


def luminance(colour: str) -> float:
    """Returns the relative luminance of WCAG 2.2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_only_the_two_fills_have_fixed_colours() -> None:
    """All other parts have the text colour of the theme."""
    cuts = [charts.Mark(datetime(2026, 11, 26, tzinfo=UTC), 1, "run", True, "")]
    drawn = charts.timeline(cuts, "") + charts.sparkline("n", [1, 2]) + charts.spread([("a", 1)])
    drawn += html.table([Column("n", [1])]) + charts.bars([1, 2])[0]
    colours = set(re.findall(r'(?:fill|stroke)="([^"]*)"|#[0-9a-fA-F]{3,6}', drawn)) - {""}
    assert colours == {charts.PLAIN, charts.OTHER, "currentColor", "none"}
    assert not re.search(r"[^-]color:|background", drawn)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [((), ""), ((4,), "4"), ((1, 2, 3, 5, 7, 8), "1-3, 5, 7-8")],
)
def test_runs_of_numbers_are_drawn_together(numbers: tuple[int, ...], text: str) -> None:
    assert ranges(numbers) == text


def test_a_list_of_infos_renders_as_a_table() -> None:
    infos = InfoList([StoreInfo(0, 7, "default", (1, 2, 4), 4, 100)])
    assert "0          7  default  1-2, 4" in str(infos)
    assert RenderedHtml(infos._repr_html_()).column("versions") == ["1-2, 4"]
    assert infos.to_dicts()[0]["versions"] == (1, 2, 4)
    assert (str(InfoList[StoreInfo]()), InfoList[StoreInfo]().to_dicts()) == ("(none)", [])
