"""Runs the commands and the code of the README and the quick start as they are printed there."""

import json
import re
import sys
from pathlib import Path

import pyspark
import pytest

from tests.support.documented import blocks, commands, run_as_typed, shape
from tests.support.tiers import long

pytestmark = pytest.mark.spark

README = "README.md"
QUICK_START = "docs/get-started/quick-start.md"


PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def write_orders(directory: Path, name: str, **amounts: int) -> None:
    """Writes a file of orders for the README's query."""
    (directory / "orders").mkdir(exist_ok=True)
    lines = (json.dumps({"shop": shop, "amount": amount}) for shop, amount in amounts.items())
    (directory / "orders" / f"{name}.json").write_text("\n".join(lines))


def test_readme_query_and_every_command_on_its_checkpoint_run(tmp_path: Path) -> None:
    write_orders(tmp_path, "1", north=3, south=7)
    (query,) = blocks(README, "python")
    (tmp_path / "job.py").write_text(query)
    assert re.search(r"north\s*\|\s*3\b", run_as_typed([sys.executable, "job.py"], tmp_path))
    # The same script, with another file.
    write_orders(tmp_path, "2", north=4)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    assert re.search(r"north\s*\|\s*7\b", run_as_typed([str(submit), "job.py"], tmp_path))
    there = commands(blocks(README, "sh")[1])
    assert [command[1] for command in there] == ["ls", "state", "verify"]
    for command in there:
        assert run_as_typed([sys.executable, "-m", *command], tmp_path)


@long
def test_a_query_on_rocksdb_is_tried_on_cleancut_and_returns(tmp_path: Path) -> None:
    (query,) = blocks(README, "python")
    spark = "spark = cleancut.configure(builder).getOrCreate()"
    assert spark in query
    plain = query.replace(spark, f'spark = builder.config("{PROVIDER}", "{ROCKSDB}").getOrCreate()')
    into, back = commands(blocks(README, "sh")[2])
    run_query(tmp_path, plain, "orders", 1)
    run_as_typed([sys.executable, "-m", *into], tmp_path)
    run_query(tmp_path, query, "orders-trial", 2)
    run_as_typed([sys.executable, "-m", *back], tmp_path)
    run_query(tmp_path, plain, "orders-back", 3)
    # The original is unchanged, and continues too.
    run_query(tmp_path, plain, "orders", 3)


def run_query(directory: Path, query: str, checkpoint: str, files: int) -> None:
    """Runs the query on a checkpoint when the input has a number of files, each of one order."""
    write_orders(directory, str(files), north=1)
    code = query.replace("checkpoints/orders", f"checkpoints/{checkpoint}")
    printed = run_as_typed([sys.executable, "-c", code], directory)
    assert re.search(rf"north\s*\|\s*{files}\b", printed)


@long
def test_the_quick_start_prints_what_its_page_shows(tmp_path: Path) -> None:
    script, looking = blocks(QUICK_START, "python")
    (tmp_path / "quickstart.py").write_text(script, encoding="utf-8")
    typed = [command for block in blocks(QUICK_START, "sh")[1:] for command in commands(block)]
    *to_run, in_python = blocks(QUICK_START, "text")
    for command, shown in zip(typed, to_run, strict=True):
        module = [] if command[0] == "python" else ["-m", "cleancut"]
        printed = run_as_typed([sys.executable, *module, *command[1:]], tmp_path)
        assert shape(printed) == shape(shown)
        if command == ["python", "quickstart.py"]:
            orders = re.findall(r"^epoch \d+: (\d+) orders$", printed, flags=re.MULTILINE)
            assert sum(map(int, orders)) == 1600
    assert shape(run_as_typed([sys.executable, "-c", looking], tmp_path)) == shape(in_python)


def test_named_tasks_exist_in_the_makefile() -> None:
    menu = (Path(__file__).parents[2] / "Makefile").read_text(encoding="utf-8")
    text = (Path(__file__).parents[2] / README).read_text(encoding="utf-8")
    named = text + blocks(QUICK_START, "sh")[0]
    tasks = set(re.findall(r"^make ([\w-]+)|`make ([\w-]+)`", named, flags=re.MULTILINE))
    tasks = {first or second for first, second in tasks}
    assert {"wheel", "demo", "test", "docs-site"} <= tasks
    assert all(re.search(rf"^{task}:", menu, flags=re.MULTILINE) for task in tasks)
