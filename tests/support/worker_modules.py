"""The modules that run in a Python worker, imported as there: from their texts."""

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

TEXTS = Path(__file__).parents[2] / "jvm/core/src/main/resources/worker"
PACKAGE = "cleancut_worker_tests"


def worker_module(name: str) -> ModuleType:
    """Imports a module of the package."""
    try:
        return importlib.import_module(f"{PACKAGE}.{name}")
    except ModuleNotFoundError:
        scope: dict[str, Any] = {}
        exec((TEXTS / "modules.py").read_text("utf-8"), scope)
        texts = {path.stem: path.read_text("utf-8") for path in TEXTS.glob("*.py")}
        scope["install"](PACKAGE, texts)
        return importlib.import_module(f"{PACKAGE}.{name}")
