"""Modules that an import of the package loads; each Python worker of Spark imports it."""

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = ["cleancut", "cleancut.dataflow", "cleancut.sinks", "cleancut.testing"]
HEAVY = {
    *("boto3", "botocore", "confluent_kafka", "deltalake", "numpy", "pandas", "psycopg"),
    *("py4j", "pyarrow", "pyiceberg", "pyspark", "redis", "sqlalchemy", "zstandard"),
}
# Parts of the package that read checkpoints.
READERS = {f"cleancut.{name}" for name in ("_checkpoint", "_cli", "dataflow", "_metrics")}
_PROGRAM = "import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)))"


def imported(code: str) -> set[str]:
    """Returns the modules of an interpreter after it has run some code."""
    command = [sys.executable, "-c", _PROGRAM.format(code=code)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout))


@pytest.mark.parametrize(
    ("code", "limit"),
    [
        ("import cleancut", 5),
        ("import cleancut.sinks", 6),
        ("from cleancut.testing import slow", 10),
        ("from cleancut.sinks import sealed", 21),
        ("from cleancut.sinks import *", 101),
    ],
)
def test_an_import_loads_the_modules_that_it_needs(code: str, limit: int) -> None:
    modules = imported(code)
    assert modules & HEAVY == set()
    assert modules & READERS == set()
    loaded = [name for name in modules if name.partition(".")[0] == "cleancut"]
    assert len(loaded) <= limit, loaded


def test_names_of_the_package_are_loaded_on_first_use() -> None:
    modules = imported("import cleancut\ncleancut.errors.find_error\ncleancut.sinks.sealed")
    assert "cleancut.errors" in modules
    assert modules & HEAVY == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_declared_for_type_checkers_and_at_run_time(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    (guarded,) = [node for node in tree.body if isinstance(node, ast.If)]
    declared = {
        (node.module, alias.name)
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    (assigned,) = [node for node in guarded.orelse if isinstance(node, ast.Assign)]
    assert isinstance(assigned.value, ast.Call)
    table = ast.literal_eval(assigned.value.args[1])
    lazy = {
        (f"cleancut.{name}" if name else "cleancut", attribute)
        for name, attributes in table.items()
        for attribute in attributes
    }
    assert lazy == declared
    assert {name for _, name in lazy} == set(module.__all__) - {"__version__"}
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = module.no_such_name
