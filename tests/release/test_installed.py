"""The files of a release for users: in a fresh environment, and from a repository."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import cleancut
from cleancut._provider import PROVIDER_CLASS, PROVIDER_KEY
from cleancut._session.installation import spark_home, spark_line
from cleancut._session.settings import EXTENSION_CLASS, EXTENSIONS_KEY
from tests.support.documented import blocks, commands
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.spark

TIMEOUT_S = PATIENCE_S
QUERY = """
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 60)
rows = rows.option("numPartitions", 4).load().selectExpr("value % 7 k", "value v")
query = rows.groupBy("k").agg({"v": "sum"}).writeStream.outputMode("update").format("noop")
query = query.option("checkpointLocation", sys.argv[1]).trigger(availableNow=True).start()
query.awaitTermination()
state = spark.read.format("statestore").load(sys.argv[1]).selectExpr("key.k", "value.*").collect()
print("STATE", sorted(tuple(row) for row in state))
spark.stop()
"""
HEAD = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.shuffle.partitions", "3").config("spark.log.level", "ERROR")
"""


def environment(**variables: str) -> dict[str, str]:
    """Returns the environment without paths to the sources."""
    named = ("SPARK_", "PYSPARK_", "PYTHONPATH")
    return {k: v for k, v in os.environ.items() if not k.startswith(named)} | variables


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the Python of a fresh environment with the wheel and its requirements."""
    home = tmp_path_factory.mktemp("fresh")
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    (site,) = home.glob("lib/python*/site-packages")
    # Directories named in a .pth are searched; .pth files in them, like that of an editable
    # install, are not read.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    install = [str(python), "-m", "pip", "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=TIMEOUT_S)
    return python


def run(python: Path, code: str, home: Path, *arguments: str) -> str:
    ended = subprocess.run(
        [str(python), "-c", code, *arguments],
        cwd=home,
        env=environment(PYSPARK_PYTHON=str(python)),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def expected() -> str:
    """Returns the result of the one batch with `availableNow`."""
    sums = [(k, sum(v for v in range(60) if v % 7 == k)) for k in range(7)]
    return f"STATE {sums}"


def test_the_installed_wheel_keeps_state_on_a_cluster(python: Path, tmp_path: Path) -> None:
    code = HEAD + (
        "import cleancut\n"
        "print('FROM', cleancut.__file__)\n"
        "builder = builder.master('local-cluster[2,1,1024]')\n"
        "spark = cleancut.configure(builder).getOrCreate()\n"
    )
    printed = run(python, code + QUERY, tmp_path, str(tmp_path / "checkpoint"))
    assert f"FROM {python.parents[1]}/" in printed
    assert expected() in printed
    verified = [str(python), "-m", "cleancut", "verify", str(tmp_path / "checkpoint")]
    subprocess.run(verified, cwd=tmp_path, env=environment(), check=True, timeout=TIMEOUT_S)


def test_spark_submit_takes_the_jars_from_a_repository(
    dist: Path, release: str, tmp_path: Path
) -> None:
    """As in docs/project/releasing.md, with only the class of the provider."""
    (command,) = commands(blocks("docs/project/releasing.md", "sh")[3])
    there = {
        "/opt/cleancut/maven": f"{dist}/maven",
        "4.3_2.13:0.1.0": f"{spark_line()}_2.13:{release}",
    }
    for documented, here in there.items():
        assert any(documented in part for part in command)
        command = [part.replace(documented, here) for part in command]
    code = f"{HEAD}\nspark = builder.config({PROVIDER_KEY!r}, {PROVIDER_CLASS!r}).getOrCreate()\n"
    (tmp_path / "job.py").write_text(code + QUERY, encoding="utf-8")
    ivy = ["--conf", f"spark.jars.ivy={tmp_path / 'ivy'}", "--master", "local[2]"]
    ended = subprocess.run(
        [str(spark_home() / "bin" / command[0]), *ivy, *command[1:], str(tmp_path / "checkpoint")],
        cwd=tmp_path,
        env=environment(PYSPARK_PYTHON=sys.executable),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert ended.returncode == 0, ended.stderr
    assert expected() in ended.stdout


def test_spark_takes_the_jars_from_a_repository(dist: Path, release: str, tmp_path: Path) -> None:
    """By the one coordinate of a Spark version; every other host is unreachable."""
    coordinate = f"io.cleancut:cleancut-spark-{spark_line()}_2.13:{release}"
    settings = {
        "spark.master": "local-cluster[2,1,1024]",
        "spark.jars.packages": coordinate,
        "spark.jars.repositories": (dist / "maven").as_uri(),
        "spark.jars.ivy": str(tmp_path / "ivy"),
        "spark.driver.extraJavaOptions": "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9",
        PROVIDER_KEY: PROVIDER_CLASS,
        EXTENSIONS_KEY: EXTENSION_CLASS,
    }
    confs = "".join(f".config({key!r}, {value!r})" for key, value in settings.items())
    code = f"{HEAD}\nspark = builder{confs}.getOrCreate()\n{QUERY}"
    printed = run(Path(sys.executable), code, tmp_path, str(tmp_path / "checkpoint"))
    assert expected() in printed
    fetched = {path.name for path in (tmp_path / "ivy" / "jars").iterdir()}
    assert fetched == {
        f"io.cleancut_cleancut-spark-{spark_line()}_2.13-{release}.jar",
        f"io.cleancut_cleancut-common_2.13-{release}.jar",
    }
    report = cleancut.Checkpoint(tmp_path / "checkpoint").verify()
    assert (report.problems, report.stores) == ((), 3)
