"""What released versions have promised is still there (docs/operations/compatibility.md)."""

from pathlib import Path
from typing import Any

import pytest

import cleancut
from tests.support import releases as releases_module
from tests.support.documented import blocks, commands
from tests.support.promise import PROMISES, broken, promised, releases, today, write

RELEASING = "docs/operations/releasing.md"


@pytest.mark.parametrize("release", releases())
def test_what_a_release_has_promised_is_kept(release: str) -> None:
    before = {part: value for part, value in promised(release).items() if part != "jvm"}
    assert min(map(len, before.values())) > 0
    assert list(broken(before, today())) == []


def test_the_documented_commands_write_what_is_kept(tmp_path: Path) -> None:
    """Of this release; where something has come since, `tests.support.promise` is to be run."""
    typed = [command[1:] for command in commands(blocks(RELEASING, "sh")[0])]
    assert typed == [["-m", "tests.support.promise"], ["-m", "tests.support.releases"]]
    assert callable(releases_module.main)
    kept, again = PROMISES / f"{cleancut.__version__}.json", tmp_path / "again.json"
    write(again, promised(cleancut.__version__)["jvm"])
    assert again.read_text(encoding="utf-8") == kept.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        ({"f": {"a": "0, required"}}, {"f": {"a": "0, required"}, "g": {}}, []),
        ({"f": {"a": "0"}}, {"f": {"a": "0", "b": "by name"}}, []),
        ({"f": {"a": "0"}}, {}, ["f is gone"]),
        ({"f": {"a": "0"}}, {"f": {"b": "0"}}, ["f a is gone"]),
        ({"f": {"a": "0"}}, {"f": {"a": "1"}}, ["f a was '0' and is '1'"]),
        ({"f": {}}, {"f": {"b": "0, required"}}, ["f b has come and must be given"]),
        ({"jvm": ["m()V"]}, {"jvm": ["m(I)V"]}, ["jvm has no m()V any more"]),
    ],
)
def test_what_breaks_callers_is_found(
    before: dict[str, Any], now: dict[str, Any], found: list[str]
) -> None:
    assert list(broken(before, now)) == found
