"""What the documentation tells a user to type."""

import re
import subprocess
from pathlib import Path

from tests.support.kills import environment

DOCS = Path(__file__).parents[2] / "docs"
TIMEOUT_S = 180


def python_blocks(page: str) -> list[str]:
    """The Python code of a page below `docs/`, block by block."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def run_as_typed(command: list[str], home: Path) -> str:
    """Runs a command in a process and a directory of its own; gives what it prints."""
    # Spark's default is 200 partitions, each of which has a store.
    (home / "conf").mkdir(exist_ok=True)
    (home / "conf" / "spark-defaults.conf").write_text("spark.sql.shuffle.partitions 5\n")
    answer = subprocess.run(
        command,
        cwd=home,
        env=environment() | {"SPARK_CONF_DIR": str(home / "conf"), "TMPDIR": str(home)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout
