"""The repr of each public value: a few lines of a terminal's width, without I/O."""

import inspect
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

import cleancut
import cleancut.sinks
import cleancut.testing
from cleancut import Checkpoint
from cleancut.types import InfoList, StoreInfo
from tests.unit.cut_files import CutFiles

WIDTH, LINES = 100, 13


def public_values() -> list[type]:
    places = (cleancut, cleancut.sinks, cleancut.testing)
    values = {getattr(place, name) for place in places for name in place.__all__}
    return sorted(filter(is_dataclass, values), key=lambda value_type: value_type.__name__)


def assert_fits(shown: str) -> None:
    assert max(map(len, shown.splitlines())) <= WIDTH, shown
    assert len(shown.splitlines()) <= LINES


@pytest.mark.parametrize("value_type", public_values(), ids=lambda value_type: value_type.__name__)
def test_a_value_fits_a_line_with_any_content(value_type: type) -> None:
    value: Any = object.__new__(value_type)
    for field in fields(value_type):
        object.__setattr__(value, field.name, InfoList(["x" * 200] * 500))
    assert_fits(repr(value))
    for field in fields(value_type):
        object.__setattr__(value, field.name, "x" * 200)
    assert_fits(repr(value))
    assert repr(value).startswith(f"{value_type.__name__}(")
    assert repr(value).endswith(")")


def test_results_of_a_checkpoint_fit_a_terminal(four_cuts: CutFiles) -> None:
    checkpoint = Checkpoint(four_cuts.location)
    cut = checkpoint.cut()
    for shown in (checkpoint.cuts(), checkpoint.stores(), checkpoint.history(), cut, cut.stores):
        assert_fits(repr(shown))
    for one in (checkpoint.frames(0, 0), checkpoint.verify(), checkpoint.cost_per_day()):
        assert_fits(repr(one))
    for last in (
        cut.stores[0],
        cut.stores[0].chain,
        cut.shuffle_inputs,
        checkpoint.history()[-1].costs,
    ):
        assert_fits(repr(last))


def test_a_long_list_shows_its_first_rows() -> None:
    stores = InfoList(StoreInfo(0, at, "default", (1,), 1, 100) for at in range(1000))
    assert_fits(repr(stores))
    assert repr(stores).endswith("… and 990 more")
    assert len(str(stores).splitlines()) == 1002


def test_a_slice_of_a_list_has_its_type() -> None:
    stores = InfoList(StoreInfo(0, at, "default", (1,), 1, 100) for at in range(5))
    part: InfoList[StoreInfo] = stores[1:3]
    assert isinstance(part, InfoList)
    assert [row["partition"] for row in part.to_dicts()] == [1, 2]
    assert stores[-1].partition == 4


def test_the_repr_of_a_checkpoint_reads_nothing(
    four_cuts: CutFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook listed the bucket to show the name of a variable."""
    checkpoint = Checkpoint(four_cuts.location)

    def forbidden(*_: object) -> Any:
        raise AssertionError("it reads")

    for method in ("list", "read", "read_range"):
        monkeypatch.setattr(type(checkpoint._root.objects), method, forbidden)
    assert repr(checkpoint) == f"Checkpoint({str(four_cuts.location)!r})"
    for name, shown in inspect.getmembers(checkpoint, callable):
        if name.startswith("_repr_"):
            shown()
