"""Defects in Python: the tests run in links to the repository, in which one file is another one."""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.mutants.mutant import Mutant
from tests.mutants.server import NoResultError, Server

_ROOT = Path(__file__).parents[2]
_SERVER = Path(__file__).with_name("pytest_server.py")


def failing_test(mutant: Mutant) -> str | None:
    """The first test that fails with a defect; None if all pass."""
    text = mutant.text((_ROOT / mutant.path).read_text(encoding="utf-8"))
    with _replaced(mutant.path, text) as root:
        return first_failure(mutant.tests, root)


def first_failure(tests: Sequence[str], root: Path = _ROOT) -> str | None:
    """The first failing test below a directory; None if all pass."""
    arguments = ["-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        status, output = server().request(str(root), *arguments)
    except NoResultError:
        return f"`{Path(tests[0]).name}`, which does not end"
    if status == "0":
        return None
    failed = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if not failed:
        raise RuntimeError(f"pytest ended with {status}\n{output}")
    file, _, test = failed[0].split()[1].partition("::")
    return "::".join(f"`{part}`" for part in (Path(file).name, test.split("[")[0]) if part)


@cache
def server() -> Server:
    """The process that runs tests."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return Server("PytestServer", [sys.executable, str(_SERVER)], environment)


@contextmanager
def _replaced(path: str, text: str) -> Iterator[Path]:
    """A directory of links to the repository, with another text of one file."""
    with tempfile.TemporaryDirectory(prefix="cleancut-mutant-") as directory:
        root, source = Path(directory), _ROOT
        for part in Path(path).parts:
            for other in source.iterdir():
                if other.name not in (part, "__pycache__"):
                    (root / other.name).symlink_to(other)
            root, source = root / part, source / part
            if source.is_dir():
                root.mkdir()
        root.write_text(text, encoding="utf-8")
        yield Path(directory)
