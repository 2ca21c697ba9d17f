"""The documented features by Spark version match the results of the tests."""

import pytest

from cleancut._session.installation import SPARK
from tests.lines import page, record


@pytest.mark.parametrize("line", SPARK)
def test_the_tests_that_ran_on_a_line_are_those_of_the_release(line: str) -> None:
    changed = [
        result.test
        for result in record.read(line)
        if record.source_of(result.test) != result.source
    ]
    assert changed == [], "make lines runs them as they are now"


def test_all_that_the_table_names_was_run() -> None:
    assert f"| {page.OPEN} |" not in page.written()
