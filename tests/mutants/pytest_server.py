"""Runs tests in forks of one process, which has loaded the libraries that tests import.

A request is a line: a directory and the arguments of pytest, divided by tabs. The answer is the
output of pytest, and a line with its exit status. The package and its tests are loaded from that
directory in each fork.
"""

import os
import sys
from importlib import import_module
from pathlib import Path

_LIBRARIES = (
    *("pytest", "_pytest.assertion.rewrite", "hypothesis", "numpy", "pandas", "pyarrow"),
    *("pyarrow.fs", "pyarrow.compute", "pyarrow.parquet", "zstandard", "pyspark.sql"),
    *("pyspark.sql.streaming.stateful_processor_api_client", "asyncio", "unittest.mock"),
)


def main() -> None:
    """Answers requests until its input ends."""
    here = str(Path(__file__).parent)
    sys.path[:] = [path for path in sys.path if path != here]
    for name in _LIBRARIES:
        import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os._exit(_run(*line.rstrip("\n").split("\t")))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(f"\nPytestServer: {status}", flush=True)


def _run(root: str, *arguments: str) -> int:
    import pytest

    os.chdir(root)
    sys.path[:0] = [f"{root}/python", root]
    # Of processes that tests start.
    os.environ["PYTHONPATH"] = f"{root}/python"
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    status = int(pytest.main(list(arguments)))
    sys.stdout.flush()
    return status


if __name__ == "__main__":
    main()
