"""`python -m tests.mutants`: plants each defect of the catalogue; the tests of each must fail.

The tests run in a directory of links to the repository, in which only the changed file is another
one. A defect that no test finds is a missing test.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.mutants.catalogue import MUTANTS, Mutant

_ROOT = Path(__file__).parents[2]
_SECONDS = 120


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each defect and the score; returns 1 if a defect was not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", default="", help="part of an area or of a defect")
    only = parser.parse_args(arguments).only
    chosen = [mutant for mutant in MUTANTS if only in f"{mutant.area}: {mutant.defect}"]
    for tests in dict.fromkeys(tuple(mutant.tests) for mutant in chosen):
        failure = _first_failure(_ROOT, tests)
        if failure is not None:
            parser.error(f"{failure} fails without a defect")
    hits: Counter[str] = Counter()
    print("| area | planted defect | found by | seconds |\n|---|---|---|---|")
    for mutant in chosen:
        began = time.monotonic()
        by = failing_test(mutant)
        hits[mutant.area] += by is not None
        seconds = time.monotonic() - began
        print(
            f"| {mutant.area} | {mutant.defect} | {by or '**not found**'} | {seconds:.0f} |",
            flush=True,
        )
    print("\n| area | planted | found |\n|---|---|---|")
    for area, count in Counter(mutant.area for mutant in chosen).items():
        print(f"| {area} | {count} | {hits[area]} |")
    print(f"| all | {len(chosen)} | {hits.total()} |")
    return 0 if hits.total() == len(chosen) else 1


def failing_test(mutant: Mutant) -> str | None:
    """The first test that fails with a defect; None if all pass."""
    text = (_ROOT / mutant.path).read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.path} has {text.count(mutant.old)} times: {mutant.old}")
    with _replaced(mutant.path, text.replace(mutant.old, mutant.new)) as root:
        return _first_failure(root, mutant.tests)


def _first_failure(root: Path, tests: Sequence[str]) -> str | None:
    environment = os.environ | {"PYTHONPATH": str(root / "python")}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        run = subprocess.run(
            command,
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "does not end"
    if run.returncode == 0:
        return None
    failed = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if run.returncode != 1 or not failed:
        raise RuntimeError(f"pytest ended with {run.returncode}\n{run.stdout}")
    file, test = failed[0].split()[1].split("::", 1)
    return f"`{file.removeprefix('tests/unit/')}::{test.split('[')[0]}`"


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


if __name__ == "__main__":
    sys.exit(main())
