"""The planted defects fit the code, and the page shows the result of each of them."""

from collections import Counter
from pathlib import Path

import pytest

from tests.mutants import page, record
from tests.mutants.__main__ import all_planted
from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.record import Result
from tests.mutants.scala_code import suite_named
from tests.mutants.survivors import SURVIVORS
from tests.mutants.switches import COMMITS, DATAFLOWS
from tests.unit.test_tidy import ROOT

RESULTS = record.read()


def test_each_defect_fits_the_code() -> None:
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in {m.path for m in MUTANTS}}
    for mutant in MUTANTS:
        changed = mutant.text(texts[mutant.path])
        assert changed != texts[mutant.path], mutant.defect
        if mutant.path.endswith(".py"):
            compile(changed, mutant.path, "exec")


def test_the_tests_of_each_defect_exist() -> None:
    names = {name for mutant in MUTANTS for name in mutant.tests}
    for name in names:
        file = name.partition("::")[0]
        if file.endswith(".py"):
            assert (ROOT / file).exists(), name
        else:
            assert suite_named(file).endswith(file)


def test_a_text_that_is_not_there_once_is_refused() -> None:
    mutant = Mutant("area", "defect", "a.py", "x", "y", ())
    assert mutant.text("a x b") == "a y b"
    for text in ("a", "x x"):
        with pytest.raises(ValueError, match=r"a\.py has"):
            mutant.text(text)


def test_each_defect_is_planted_once_and_has_a_result() -> None:
    planted = Counter((one.area, one.defect) for one in all_planted())
    assert [key for key, count in planted.items() if count > 1] == []
    known = [(one.area, one.defect) for one in RESULTS]
    assert known == [key for key in planted if key in set(known)]
    # A new switch of a simulation has its result after the next run.
    assert {area for area, _ in planted.keys() - set(known)} <= {COMMITS, DATAFLOWS}
    assert len(planted) >= 100


def test_tests_find_enough_of_the_defects() -> None:
    assert page.score(RESULTS) >= 0.95
    assert all(result.runs is None or result.runs <= 1000 for result in RESULTS)


def test_the_page_shows_the_results() -> None:
    assert page.written() == page.render(), "python -m tests.mutants page writes it"


def test_results_are_merged_in_the_order_of_the_catalogue(tmp_path: Path) -> None:
    place = tmp_path / "results.json"
    known = [("a", "one"), ("a", "two"), ("b", "three")]
    record.add([Result("b", "three", None), Result("a", "one", "`x`", 7)], known, place)
    record.add([Result("b", "three", "`y`")], known, place)
    assert record.read(place) == [Result("a", "one", "`x`", 7), Result("b", "three", "`y`")]
    record.add([], known[1:], place)
    assert record.read(place) == [Result("b", "three", "`y`")]


def test_the_page_names_what_was_not_found() -> None:
    text = page.render([Result("a", "one", "`x`", 7), Result("a", "two", None)], SURVIVORS[:1])
    assert "| a | 2 | 1 |" in text
    assert "The score is 50.0 %." in text
    assert "| two | **not found** |  |" in text
    assert SURVIVORS[0].change in text
