"""Each way to start Spark that works on one machine, with the commands of its page.

The program is that of docs/get-started/starting-spark.md.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pyarrow.parquet as pq
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError

import cleancut
from cleancut._provider import PROVIDER_CLASS, PROVIDER_KEY
from cleancut._session.settings import EXTENSION_CLASS, EXTENSIONS_KEY
from tests.support.documented import ROOT, blocks
from tests.support.patience import PATIENCE_S
from tests.support.standalone import standalone
from tests.support.stranger import (
    FILES,
    INDEX,
    SPARK_HOME,
    WHEEL,
    Orders,
    Stranger,
    await_,
    filled,
    kill,
    killed_and_typed_again,
    pids,
    pythons,
    wheel,
)
from tests.support.tiers import long

pytestmark = [pytest.mark.spark, long]

SUBMIT = "docs/get-started/starting/spark-submit.md"
STANDALONE = "docs/get-started/starting/standalone.md"
SHELL = "docs/get-started/starting/shell-and-notebooks.md"
# Only the typed settings of this project, not even the tests' own module path.
HOSTS = {"127.0.0.1": {"PYTHONPATH": ""}, "127.0.0.2": {"PYTHONPATH": ""}}
JOB = """
import sys
from pyspark.sql import SparkSession

place = sys.argv[1]
builder = SparkSession.builder.config("spark.sql.shuffle.partitions", "4")
spark = builder.getOrCreate()
rows = spark.readStream.schema("shop string, amount long").option("maxFilesPerTrigger", 1)
totals = rows.json(f"{place}/orders").groupBy("shop").sum("amount").toDF("shop", "total")


def write(rows, epoch):
    rows.write.mode("overwrite").parquet(f"{place}/totals/epoch={epoch}")


writer = totals.writeStream.outputMode("update").foreachBatch(write)
writer = writer.option("checkpointLocation", f"{place}/checkpoint").trigger(availableNow=True)
writer.start().awaitTermination()
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two Python environments: with and without the package."""
    return pythons(tmp_path_factory.mktemp("pythons"))


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("cluster"), HOSTS, cores=2) as url:
        yield url


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    return Orders(tmp_path / "place", seed=len(tmp_path.name))


@pytest.fixture
def stranger(tmp_path: Path, both: tuple[Path, Path]) -> Stranger:
    """Drivers have the package installed, executors do not."""
    return Stranger(tmp_path / "home", *both)


def typed(page: str, number: int, master: str, orders: Orders) -> str:
    """Returns a block of a page without the installation command, which the fixture has run."""
    command = re.sub(r"^pip install .*\n", "", blocks(page, "sh")[number], flags=re.MULTILINE)
    places = {"master": master, "place": orders.place}
    return filled(command, {name: at for name, at in places.items() if f"<{name}>" in command})


def page_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def files_of_epochs(orders: Orders) -> Iterator[tuple[str, int]]:
    for file in (orders.place / "totals").glob("epoch=*/*.parquet"):
        for row in pq.ParquetFile(file).read().to_pylist():
            yield row["shop"], row["total"]


def test_client_mode_with_the_package_on_the_driver(
    master: str, stranger: Stranger, orders: Orders
) -> None:
    killed_and_typed_again(stranger, typed(SUBMIT, 0, master, orders), orders)


def test_client_mode_with_the_package_sent_along(
    master: str, both: tuple[Path, Path], orders: Orders, tmp_path: Path
) -> None:
    _, without = both
    stranger = Stranger(tmp_path / "home", without, without)
    wheel(stranger.home)
    killed_and_typed_again(stranger, typed(SUBMIT, 1, master, orders), orders, kills=1)


def test_client_mode_of_a_program_that_does_not_name_the_package(
    master: str, stranger: Stranger, orders: Orders
) -> None:
    (stranger.home / "job.py").write_text(JOB)
    orders.write(range(FILES))
    command = typed(SUBMIT, 2, master, orders)
    with stranger.types(command, "first") as driver:
        await_(lambda: orders.epochs() > 1 or driver.exit_code() is not None, stranger.home)
        assert driver.kill()
    status, printed = stranger.runs(command)
    assert status == 0, printed[-4000:]
    orders.compare(files_of_epochs(orders))


def test_cluster_mode_with_a_driver_that_is_supervised(
    master: str, stranger: Stranger, orders: Orders
) -> None:
    stranger.variables["SPARK_HOME"] = str(SPARK_HOME)
    (source,) = blocks(STANDALONE, "java")
    (stranger.home / "Counts.java").write_text(source)
    orders.write(range(FILES))
    status, printed = stranger.runs(typed(STANDALONE, 1, master, orders))
    assert status == 0, printed[-4000:]

    def driver() -> list[int]:
        return list(pids("DriverWrapper", str(orders.place)))

    await_(lambda: orders.epochs() > 1, stranger.home / "log")
    # A process that a JVM has just forked still has its arguments.
    killed, *_ = sorted(driver())
    kill(killed)
    assert orders.epochs() < FILES
    await_(lambda: driver() not in ([], [killed]), stranger.home / "log")
    await_(lambda: orders.epochs() == FILES and not driver(), stranger.home / "log")
    orders.compare(files_of_epochs(orders))


def test_spark_refuses_python_in_cluster_mode_on_standalone(
    master: str, stranger: Stranger, orders: Orders
) -> None:
    command = typed(SUBMIT, 0, master, orders).replace("--master", "--deploy-mode cluster --master")
    status, printed = stranger.runs(command)
    assert status != 0
    (said,) = re.findall(r"`(Cluster deploy mode .*?)`", page_of(STANDALONE))
    assert said in printed


def test_the_shell(master: str, stranger: Stranger, orders: Orders) -> None:
    command = typed(SHELL, 0, master, orders)
    lines = filled(blocks(SHELL, "python")[0], {"place": orders.place})
    killed_and_typed_again(stranger, command, orders, kills=1, keys=f"{lines}exit()\n")


def test_a_notebook(
    master: str, both: tuple[Path, Path], stranger: Stranger, orders: Orders
) -> None:
    lines = filled(blocks(SHELL, "python")[0], {"place": orders.place})
    (builder,) = re.findall(r"`(SparkSession\.builder\.master\(.*?\))`", page_of(SHELL))
    cell = lines.replace("SparkSession.builder", filled(builder, {"master": master}))

    def run() -> None:
        manager = AsyncKernelManager(kernel_name="python3")
        assert manager.kernel_spec is not None
        manager.kernel_spec.argv[0] = str(both[0])
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
        where = {"metadata": {"path": str(stranger.home)}}
        client = NotebookClient(notebook, km=manager, timeout=PATIENCE_S, resources=where)
        client.execute(cleanup_kc=True, env=stranger.variables)

    orders.write(range(FILES))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(run)
        await_(lambda: orders.epochs() > 1 or first.done(), stranger.home / "counts.py")
        (kernel,) = pids("ipykernel_launcher", str(both[0]))
        kill(kernel)
        assert isinstance(first.exception(), DeadKernelError)
        assert orders.epochs() < FILES
        pool.submit(run).result()
    orders.check()


ASKING = """
import sys
import cleancut
from pyspark.sql import SparkSession

place, step = sys.argv[1:]


def through(batches):
    import cleancut

    yield from batches


if step == "package":
    spark = cleancut.configure(SparkSession.builder).getOrCreate()
else:
    spark = SparkSession.builder.getOrCreate()
orders = spark.readStream.schema("shop string, amount long").json(f"{place}/orders")
if step == "package":
    orders = orders.mapInArrow(through, orders.schema)
totals = orders.groupBy("shop").sum("amount").writeStream.outputMode("update").format("noop")
query = totals.option("checkpointLocation", f"{place}/{step}").start()
try:
    query.processAllAvailable()
except Exception as failure:
    print("FROM THE CALL", cleancut.errors.find_error(failure))
print("FROM THE QUERY", cleancut.errors.find_error(query))
"""


CLASS_PATH = ":".join(cleancut.jar_paths())


@pytest.mark.parametrize(
    ("step", "arguments", "error_id"),
    [
        ("package", "", "CLEANCUT_PACKAGE_MISSING"),
        ("package", f"--py-files {WHEEL}", "CLEANCUT_PACKAGE_MISSING"),
        ("nothing", f"--conf {PROVIDER_KEY}={PROVIDER_CLASS}", "CLEANCUT_JAR_NOT_LOADED"),
        (
            "jar",
            f"--driver-class-path {CLASS_PATH} --conf {PROVIDER_KEY}={PROVIDER_CLASS}",
            "CLEANCUT_JAR_NOT_ON_EXECUTORS",
        ),
        (
            "rules",
            f"--driver-class-path {CLASS_PATH} --conf {PROVIDER_KEY}={PROVIDER_CLASS} "
            f"--conf {EXTENSIONS_KEY}={EXTENSION_CLASS}",
            "CLEANCUT_JAR_NOT_ON_EXECUTORS",
        ),
    ],
)
def test_missing_parts_of_a_start_are_reported(
    step: str, arguments: str, error_id: str, master: str, stranger: Stranger, orders: Orders
) -> None:
    orders.write(range(1))
    wheel(stranger.home)
    (stranger.home / "asking.py").write_text(ASKING)
    command = f"spark-submit --master {master} {arguments} asking.py {orders.place} {step}"
    status, printed = stranger.runs(command)
    assert status == 0, printed[-4000:]
    for said in ("FROM THE CALL", "FROM THE QUERY"):
        assert f"{said} [{error_id}]" in printed, printed[-4000:]
    assert f"`{error_id}`" in page_of(INDEX)
