"""The count of words that Spark's and Flink's documentation does not use."""

from pathlib import Path

import pytest

from tests.support import words


@pytest.mark.parametrize(
    ("name", "text", "banned", "names"),
    [
        ("a.py", '"""Tells of it."""\nof = 1  # anew\ntold = "x"\n', 2, 2),
        ("a.py", "def read(own: int) -> None:\n    print(own)\n", 0, 1),
        ("a.scala", '/** Behind it. */\nval found = "anew" // likewise\n', 3, 1),
        ("a.scala", 'xs.map(of => of.name)\nval telling = "fine"\n', 0, 1),
        ("a.md", "Nobody reads `tells`.\n\n```sh\ncleancut tell\n```\n", 1, 0),
        ("a.md", "The lock is released after the commit.\n", 0, 0),
    ],
)
def test_prose_and_variables_are_counted_but_code_is_not(
    tmp_path: Path, name: str, text: str, banned: int, names: int
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    matches = [match for prose in words.texts_of(path) for match in words.BANNED.findall(prose)]
    assert len(matches) == banned
    assert len(list(words.names_of(path))) == names


def test_a_folder_is_a_package_or_a_tree() -> None:
    places = {
        "jvm/core/src/main/scala/io/cleancut/engine/A.scala": "jvm/core/main/engine",
        "jvm/spark/src/test/scala/io/cleancut/engine/A.scala": "jvm/spark/test/engine",
        "python/cleancut/sinks/_files/a.py": "python/sinks/_files",
        "docs/guides/a.md": "docs/guides",
        "README.md": ".",
    }
    for name, folder in places.items():
        assert words.folder_of(words.ROOT / name) == folder
