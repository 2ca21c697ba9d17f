"""Runs blocks of the documentation that no test of their subject runs."""

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
import yaml
from pyspark.sql import SparkSession

import cleancut
from cleancut._session.class_path import listed
from cleancut._session.installation import SPARK, spark_line
from cleancut._session.options import PREFIX
from tests.support.documented import blocks, commands, run_as_typed
from tests.support.kills import environment
from tests.support.patience import PATIENCE_S
from tests.support.tiers import long

pytestmark = pytest.mark.spark

STARTING = "docs/get-started/starting-spark.md"
OBJECT_STORES = "docs/use/object-stores.md"
KUBERNETES = "docs/deploy/kubernetes.md"
JOB = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").getOrCreate()
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
query = rows.groupBy("value").count().writeStream.outputMode("update").format("noop")
query = query.option("checkpointLocation", "checkpoint").trigger(availableNow=True).start()
query.awaitTermination()
"""


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """The session of all tests; settings of a block are reverted after it."""
    yield spark
    spark.conf.unset(f"{PREFIX}s3.endpoint")


@pytest.mark.parametrize(("page", "number"), [(STARTING, 0), (OBJECT_STORES, 0)])
def test_the_documented_starts_give_a_session(
    page: str, number: int, session: SparkSession
) -> None:
    names: dict[str, object] = {}
    exec(blocks(page, "python")[number].replace("<account>", "account"), names)
    assert isinstance(names["spark"], SparkSession)
    assert names["spark"].sparkContext is session.sparkContext


def test_every_documented_command_that_configures_runs(tmp_path: Path) -> None:
    there = commands(blocks(STARTING, "sh")[0])
    assert len(there) == 3
    for _, *arguments in there:
        printed = run_as_typed([sys.executable, *arguments], tmp_path)
        assert listed(cleancut.jar_paths()) in printed


def copy_of_spark(home: Path) -> Path:
    """A directory of Spark to which jars can be added."""
    original = Path(pyspark.__file__).parent
    (home / "jars").mkdir(parents=True)
    for entry in [*original.iterdir(), *(original / "jars").iterdir()]:
        if entry.name not in ("jars", "conf"):
            (home / entry.relative_to(original)).symlink_to(entry)
    return home


def steps(dockerfile: str) -> list[str]:
    return re.findall(r"^RUN (.*)$", dockerfile, flags=re.MULTILINE)


@long
def test_the_documented_image_runs_a_query(tmp_path: Path) -> None:
    """Runs the steps that do not install packages, on a copy of Spark's directory."""
    context, spark = tmp_path / "context", copy_of_spark(tmp_path / "spark")
    context.mkdir()

    def here(step: str) -> str:
        return step.replace("/opt/cleancut", str(context))

    (defaults,) = blocks(KUBERNETES, "properties")
    (context / "spark-defaults.conf").write_text(defaults)
    with zipfile.ZipFile(context / "cleancut-0-py3-none-any.whl", "w") as wheel:
        for jar in map(Path, cleancut.jar_paths()):
            wheel.write(jar, f"cleancut/jars/{jar.name}")
    variables = environment() | {"SPARK_HOME": str(spark)}
    (dockerfile,) = blocks(KUBERNETES, "dockerfile")
    installing, *others = steps(dockerfile)
    assert installing.startswith("pip install")
    variables |= {"LINE": spark_line()}
    for step in others:
        subprocess.run(["bash", "-c", here(step)], env=variables, check=True, timeout=PATIENCE_S)
    # The first step ends the build for another Spark version.
    elsewhere = ["bash", "-c", here(others[0])]
    for other in set(SPARK) - {spark_line()}:
        wrong = subprocess.run(elsewhere, env=variables | {"LINE": other}, capture_output=True)
        assert wrong.returncode != 0
    (tmp_path / "job.py").write_text(JOB)
    submit = [str(spark / "bin" / "spark-submit"), "job.py"]
    ended = subprocess.run(
        submit, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert ended.returncode == 0, ended.stderr
    assert cleancut.Checkpoint(tmp_path / "checkpoint").state(0).num_rows == 5


def test_the_documented_image_is_accepted_by_a_builder(tmp_path: Path) -> None:
    (dockerfile,) = blocks(KUBERNETES, "dockerfile")
    known = {"ARG", "FROM", "USER", "ENV", "COPY", "RUN"}
    assert {line.split(" ")[0] for line in dockerfile.splitlines()} == known
    for step in steps(dockerfile):
        subprocess.run(["bash", "-n", "-c", step], check=True, timeout=PATIENCE_S)
    # The output of `conf`, without a former name.
    (defaults,) = blocks(KUBERNETES, "properties")
    keys = {line.split()[0] for line in defaults.splitlines()}
    conf = ["-m", "cleancut", "conf", "--mode", "unaligned", "--format", "properties"]
    printed = run_as_typed([sys.executable, *conf], tmp_path)
    assert {line.split()[0] for line in printed.splitlines()} - {"spark.jars"} <= keys


def test_the_documented_manifest_matches_conf(tmp_path: Path) -> None:
    (manifest,) = blocks(KUBERNETES, "yaml")
    spec = yaml.safe_load(manifest)["spec"]
    conf = ["-m", "cleancut", "conf", "--format", "json"]
    printed = json.loads(run_as_typed([sys.executable, *conf], tmp_path))
    del printed["spark.jars"]
    # In a map of Kubernetes all values are strings.
    assert all(isinstance(value, str) for value in spec["sparkConf"].values())
    assert printed.items() <= spec["sparkConf"].items()
    line = spec["runtimeVersions"]["sparkVersion"].rpartition(".")[0]
    assert line in SPARK
