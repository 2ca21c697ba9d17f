"""The promises of released versions are kept (docs/project/compatibility.md)."""

from pathlib import Path
from typing import Any

import pytest

import cleancut
from cleancut._session.options import PREFIX
from tests.support import releases as releases_module
from tests.support.documented import blocks, commands
from tests.support.promise import (
    PROMISES,
    REFERENCE,
    broken,
    is_announced,
    promised,
    releases,
    today,
    write,
)

RELEASING = "docs/project/releasing.md"


@pytest.mark.parametrize("release", releases())
def test_promises_of_a_release_are_kept(release: str) -> None:
    before = {part: value for part, value in promised(release).items() if part != "jvm"}
    assert min(map(len, before.values())) > 0
    page = REFERENCE.read_text(encoding="utf-8")
    breaks = broken(before, today())
    assert [change for change in breaks if not is_announced(change, release, page)] == []


GONE = """## Removed keys

| key | removed in | successor | note |
|---|---|---|---|
| `old` | 2.0.0 | `mode` | Its unit was seconds. |
| `useless` | 2.1.0 | none | It is always on. |
"""


@pytest.mark.parametrize(
    ("finding", "release", "is_announced_"),
    [
        (f"keys {PREFIX}old is gone", "1.4.2", True),
        (f"keys {PREFIX}useless is gone", "1.0.0", True),
        (f"keys {PREFIX}useless is gone", "0.9.0", True),
        # Values that the release has allowed.
        (f"keys {PREFIX}useless is gone", "2.0.0", False),
        # Without an entry in the table.
        (f"keys {PREFIX}other is gone", "1.0.0", False),
        (f"keys {PREFIX}old was 'auto' and is 'none'", "1.0.0", False),
        ("errors CLEANCUT_OLD is gone", "1.0.0", False),
    ],
)
def test_a_key_is_removed_with_its_successor_in_a_major_release(
    finding: str, release: str, is_announced_: bool
) -> None:
    assert is_announced(finding, release, GONE) == is_announced_
    # The key must be in the table of removed keys.
    assert not is_announced(finding, release, GONE.partition("\n")[2])


def test_before_1_0_a_key_may_be_removed_in_a_minor_release() -> None:
    finding, page = f"keys {PREFIX}old is gone", GONE.replace("2.0.0", "0.2.0")
    assert is_announced(finding, "0.1.9", page)
    assert not is_announced(finding, "0.2.0", page)


def test_the_documented_commands_write_the_kept_promise(tmp_path: Path) -> None:
    """The promise of this release; after additions, run `tests.support.promise`."""
    typed = [command[1:] for command in commands(blocks(RELEASING, "sh")[0])]
    assert typed == [["-m", "tests.support.promise"], ["-m", "tests.support.releases"]]
    assert callable(releases_module.main)
    kept, again = PROMISES / f"{cleancut.__version__}.json", tmp_path / "again.json"
    write(again, promised(cleancut.__version__)["jvm"])
    assert again.read_text(encoding="utf-8") == kept.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("before", "now", "breaks"),
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
def test_breaking_changes_are_found(
    before: dict[str, Any], now: dict[str, Any], breaks: list[str]
) -> None:
    assert list(broken(before, now)) == breaks
