"""The commands and outputs of the documentation."""

import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.kills import environment
from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
TIMEOUT_S = PATIENCE_S
_FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", flags=re.DOTALL | re.MULTILINE)
_HEX = r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{32}\b"
# In this order: values that differ between runs, between machines, and between tables.
_VARYING = (
    (_HEX, "ID"),
    (r"\S+/quickstart/", "quickstart/"),
    (r"\d[\d.:-]*", "N"),
    (r"\bat \S+$", "at HOST"),
    (r"-+", "-"),
    (r"^(requests of .*?)  .*", r"\1"),
    (r"(snapshot N, )?\b(snapshot|changelogs) N\b", "CHAIN"),
    (r"\s+", " "),
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, which is named from the root of the project."""

    page: str
    language: str
    code: str


def fenced(page: str) -> list[Block]:
    """Returns all blocks of a page, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = _FENCED.findall(text)
    return [Block(page, language, _unindented(code, indent)) for indent, language, code in blocks]


def blocks(page: str, language: str) -> list[str]:
    """Returns the code of a page in one language, by block."""
    return [block.code for block in fenced(page) if block.language == language]


def _unindented(code: str, indent: str) -> str:
    return "".join(line.removeprefix(indent) for line in code.splitlines(keepends=True))


def commands(block: str) -> list[list[str]]:
    """Returns the command lines of a block, each split like in a shell."""
    lines = (shlex.split(line, comments=True) for line in block.splitlines())
    return [line for line in lines if line]


def run_as_typed(command: list[str], home: Path) -> str:
    """Runs a command in a separate process and directory; returns its output."""
    # Spark's default is 200 partitions, each of which has a store.
    (home / "conf").mkdir(exist_ok=True)
    (home / "conf" / "spark-defaults.conf").write_text("spark.sql.shuffle.partitions 5\n")
    answer = subprocess.run(
        command,
        cwd=home,
        env=environment()
        | {"SPARK_CONF_DIR": str(home / "conf"), "TMPDIR": str(home), "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def shape(printed: str) -> set[str]:
    """Returns the kinds of lines of an output, without numbers and repetitions."""
    return {_shape_of(line) for line in printed.splitlines() if line.strip()}


def _shape_of(line: str) -> str:
    for varying, name in _VARYING:
        line = re.sub(varying, name, line)
    return line.strip()
