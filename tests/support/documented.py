"""What the documentation tells a user to type."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def python_blocks(page: str) -> list[str]:
    """The Python code of a page below `docs/`, block by block."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
