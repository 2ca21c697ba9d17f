"""Counts words that neither Spark's nor Flink's documentation uses, by folder.

`make words` prints the counts. `make check` compares them with `tests/words.json`, which may only
shrink: `python -m tests.support.words --write` lowers it. `ALLOWED` has the correct uses.
"""

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BASELINE = ROOT / "tests/words.json"

# The replacement of each word.
WORDS: Mapping[str, str] = {
    r"acts?": "operation",
    r"again and again": "repeatedly",
    r"anew": "again",
    r"as far as": "if, where",
    r"behind": "after",
    r"besides?": "next to, in addition to",
    r"dearer": "more expensive",
    r"doubled": "duplicated",
    r"drills?": "restore test",
    r"gave up|gives? up|given up|giving up": "expire, delete",
    r"goes? back|going back|gone back|went back|set back": "roll back",
    r"goes? on|going on|went on|gone on": "continue",
    r"hands? on|handed on": "emit",
    r"in the place of": "instead of",
    r"lies?|lying": "be stored in",
    r"likewise": "the same, spelled out",
    r"looks?(?= at| for | whether| who|,)|looked at": "scan, check, read",
    r"mend(s|ed)?": "fix",
    r"nobody|somebody|whoever": "name the actor",
    r"rows? in flight": "in-flight rows",
    r"takes? in|took in|taken in": "process",
    r"takes? up|took up|taken up": "process, replay",
    r"tells?|told|telling": "report, return, log",
    r"thrown out": "evicted",
}
NAMES = ("asked", "found", "of", "own", "told")
# Correct uses by file, each with its reason.
ALLOWED: Mapping[str, Mapping[str, str]] = {
    "tests/support/words.py": dict.fromkeys(WORDS, "the list itself"),
    "docs/project/mutation-score.md": dict.fromkeys(WORDS, "names of tests"),
    "tests/unit/test_words.py": dict.fromkeys(WORDS, "the input of the test"),
}

BANNED = re.compile("|".join(rf"\b(?:{word})\b" for word in WORDS), re.IGNORECASE)
_SCALA_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|""".*?"""|"(?:[^"\\\n]|\\.)*"', re.DOTALL)
_SCALA_NAME = re.compile(
    rf"\b(?:val|var|case)\s+({'|'.join(NAMES)})\b|\b({'|'.join(NAMES)})\s*(?:=>|:\s*[A-Z])"
)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def texts_of(path: Path) -> Iterator[str]:
    """Yields the prose of a file: documents, comments, docstrings and messages."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING):
                yield token.string
    elif path.suffix == ".scala":
        yield from (match[0] for match in _SCALA_TEXT.finditer(text))
    elif path.suffix == ".md":
        yield re.sub(r"`[^`\n]*`", " ", _FENCE.sub(" ", text))
    else:
        yield text


def names_of(path: Path) -> Iterator[str]:
    """Yields the variables and parameters of a file whose names are in `NAMES`."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in NAMES:
                yield node.id
            elif isinstance(node, ast.arg) and node.arg in NAMES:
                yield node.arg
    elif path.suffix == ".scala":
        for match in _SCALA_NAME.finditer(_SCALA_TEXT.sub(" ", text)):
            yield match[1] or match[2]


def folder_of(path: Path) -> str:
    """Returns the folder of a file for the counts: a package, or a tree of documents or tests."""
    name = path.relative_to(ROOT).as_posix()
    if name.startswith("docs/design/"):
        return "docs/design"
    parts = name.split("/")[:-1]
    if "cleancut" in parts:
        at = len(parts) - 1 - parts[::-1].index("cleancut")
        package = parts[at + 1 : at + 3] if parts[0] == "python" else parts[at + 1 : at + 2]
        language = "/".join(parts[:2]) if parts[0] == "jvm" else parts[0]
        kind = "test" if "test" in parts else "main"
        return (
            "/".join((language, kind, *package))
            if parts[0] == "jvm"
            else "/".join((language, *package))
        )
    return "/".join(parts[:2]) or "."


def files() -> list[Path]:
    """Returns the files of the repository that have prose."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    kinds = (".md", ".py", ".scala", ".yml")
    paths = [ROOT / name for name in listed if name.endswith((*kinds, "error-classes.json"))]
    return [path for path in paths if path.is_file() and path.name != "CHANGELOG.md"]


def counts(paths: Iterable[Path]) -> dict[str, Counter[str]]:
    """Counts words, banned words, and variables with banned names, by folder."""
    by_folder: dict[str, Counter[str]] = {}
    for path in paths:
        is_allowed = path.relative_to(ROOT).as_posix() in ALLOWED
        counter = by_folder.setdefault(folder_of(path), Counter())
        for text in texts_of(path):
            counter["words"] += len(re.findall(r"[A-Za-z']+", text))
            if not is_allowed:
                counter["banned"] += len(BANNED.findall(text))
        counter["names"] += sum(1 for _ in names_of(path))
    return by_folder


def main() -> int:
    """Prints the counts, or compares or writes the baseline."""
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="fail if a folder has more than before")
    what.add_argument("--write", action="store_true", help="write the baseline")
    given = parser.parse_args()
    now = counts(files())
    kept = {
        folder: {"banned": of_folder["banned"], "names": of_folder["names"]}
        for folder, of_folder in sorted(now.items())
        if of_folder["banned"] or of_folder["names"]
    }
    if given.write:
        BASELINE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        return 0
    if given.check:
        before = json.loads(BASELINE.read_text(encoding="utf-8"))
        worse = [
            f"{folder}: {count} {kind}, {before.get(folder, {}).get(kind, 0)} before"
            for folder, by_kind in kept.items()
            for kind, count in by_kind.items()
            if count > before.get(folder, {}).get(kind, 0)
        ]
        if worse:
            print(
                "More words that tests/support/words.py lists than tests/words.json allows. "
                "`make words` shows what to write instead.",
                *worse,
                sep="\n",
                file=sys.stderr,
            )
        return 1 if worse else 0
    print("banned words, their share of 10,000, and variables with banned names, by folder")
    for folder, of_folder in sorted(now.items(), key=lambda pair: -pair[1]["banned"]):
        share = 10_000 * of_folder["banned"] / max(of_folder["words"], 1)
        print(f"{of_folder['banned']:6} {share:6.0f} {of_folder['names']:5}  {folder}")
    print(*(f"{word}: write {better}" for word, better in WORDS.items()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
