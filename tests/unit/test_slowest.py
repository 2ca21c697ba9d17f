"""The summary at the end of `make test`."""

import os
from pathlib import Path

import pytest

from tests.support import slowest

REPORT = """<testsuites><testsuite name="pytest" tests="2">
<testcase classname="tests.spark.test_x" name="test_long" time="{long}"/>
<testcase classname="tests.spark.test_x" name="test_short" time="0.5"/>
</testsuite></testsuites>
"""


@pytest.fixture
def stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose stages have written their records, after an earlier run of ScalaTest."""
    monkeypatch.setattr(slowest, "_ROOT", tmp_path)
    for name in (*slowest._SCALA, "stages"):
        (tmp_path / name).mkdir(parents=True)
    old = tmp_path / slowest._SCALA[0] / "TEST-old.xml"
    old.write_text(REPORT.format(long=1000.0))
    os.utime(old, (1.0, 1.0))
    made = tmp_path / "stages"
    (made / "began").touch()
    (made / "test-spark.xml").write_text(REPORT.format(long=12.25))
    (made / "test-spark.status").write_text("ok\n")
    (made / "test-spark.time").write_text("75.100 130.000 5.500\n")
    (tmp_path / slowest._SCALA[1] / "TEST-new.xml").write_text(REPORT.format(long=30.0))
    return made


def test_stages_and_the_slowest_tests_of_both_languages_are_shown(stages: Path) -> None:
    shown = list(slowest.lines(stages))
    assert shown[1].split() == ["test-spark", "1:15", "2:15", "ok"]
    assert shown[2] == "The slowest 4 of 4 tests, in seconds:"
    assert shown[3:5] == ["    30.0  test_x: test_long", "    12.2  test_x: test_long"]


def test_ten_are_shown_at_most(stages: Path) -> None:
    case = '<testcase classname="a.B" name="n" time="1"/>'
    (stages / "more.xml").write_text(f"<testsuite>{case * 20}</testsuite>")
    assert sum(": n" in line or ": test_" in line for line in slowest.lines(stages)) == 10


def test_failed_tests_are_shown_last_with_their_messages(stages: Path) -> None:
    case = '<testcase classname="a.B" name="n" time="1">{}</testcase>'
    failed = case.format('<{0} message="2 is not 3">at B:1</{0}>')
    body = "".join(failed.format(kind) for kind in ("failure", "error"))
    (stages / "more.xml").write_text(f"<testsuite>{body}</testsuite>")
    assert list(slowest.lines(stages))[-6:] == ["FAILED B: n", "  2 is not 3", "  at B:1"] * 2
