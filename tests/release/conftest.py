"""Tests of the files that `make release` has written to `dist`; skipped without them.

`make test` does not run them, because the build of a release takes longer than all other tests.
"""

import os
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def dist() -> Path:
    directory = Path(os.environ.get("CLEANCUT_DIST", ROOT / "dist"))
    if not (directory / "maven").is_dir():
        pytest.skip("`make release` has not been run")
    return directory


@pytest.fixture(scope="session")
def release() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    (wheel,) = dist.glob("*.whl")
    return wheel
