"""Runs the demo by its command line."""

import os
import subprocess
import sys
from pathlib import Path

_PYTHON = Path(__file__).parents[2] / "python"


def run_demo(*options: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Runs `python -m demo` to its end; `stdout` is its output, including errors."""
    return subprocess.run(
        [sys.executable, "-m", "demo", *options],
        env={**os.environ, "PYTHONPATH": str(_PYTHON)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
