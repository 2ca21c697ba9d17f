"""`python -m tests.input_coverage DIRECTORY...` reads the inputs of runs, and writes the page.

`generate` writes the inputs that Python's generators select for their seeds, without the runs.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.input_coverage import page
from tests.input_coverage.coverage import read_lines, store_results
from tests.input_coverage.generators import generate
from tests.input_coverage.log import InputLog


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the page, and prints the number of pairs that are not covered."""
    parser = argparse.ArgumentParser(prog="python -m tests.input_coverage", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("generate").add_argument("directory", type=Path)
    commands.add_parser("page").add_argument("directories", type=Path, nargs="*")
    options = parser.parse_args(arguments)
    if options.command == "generate":
        generate(InputLog(options.directory))
        return 0
    results = read_lines(options.directories)
    store_results(results)
    page.update()
    for one in results:
        print(f"{one.generator}: {one.runs} runs, {len(one.uncovered)} pairs never covered")
    return 0


if __name__ == "__main__":
    sys.exit(main())
