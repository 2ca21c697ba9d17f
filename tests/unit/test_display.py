"""Tables for terminals and notebooks."""

import pytest

from cleancut import InfoList, StoreInfo
from cleancut._display.tables import html_table, ranges, text_table


def test_columns_are_aligned_and_numbers_stand_to_the_right() -> None:
    table = text_table(("name", "n"), [("a", 1), ("longer", 1000)])
    assert table.split("\n") == ["name       n", "------  ----", "a          1", "longer  1000"]


def test_long_values_are_cut() -> None:
    line = text_table(("x",), [("y" * 100,)]).split("\n")[2]
    assert line == "y" * 59 + "…"


def test_html_is_escaped() -> None:
    html = html_table(("<a>",), [("<script>&",), (None,)])
    assert "<th>&lt;a&gt;</th>" in html
    assert "<td>&lt;script&gt;&amp;</td>" in html
    assert "<td></td>" in html


@pytest.mark.parametrize(
    ("numbers", "text"),
    [((), ""), ((4,), "4"), ((1, 2, 3, 5, 7, 8), "1-3, 5, 7-8")],
)
def test_runs_of_numbers_are_drawn_together(numbers: tuple[int, ...], text: str) -> None:
    assert ranges(numbers) == text


def test_a_list_of_infos_shows_itself_as_a_table() -> None:
    infos = InfoList([StoreInfo(0, 7, "default", (1, 2, 4), 4, 100)])
    assert "0          7  default  1-2, 4" in str(infos)
    assert "<td>1-2, 4</td>" in infos._repr_html_()
    assert infos.to_dicts()[0]["versions"] == (1, 2, 4)
    assert (str(InfoList[StoreInfo]()), InfoList[StoreInfo]().to_dicts()) == ("(none)", [])
