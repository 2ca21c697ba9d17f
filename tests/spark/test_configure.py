"""`configure` in real sessions; tests that need a separate JVM run in separate processes."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

import cleancut
from cleancut._provider import PROVIDER_CLASS, PROVIDER_KEY
from cleancut._session.class_path import listed
from tests.support.patience import PATIENCE_S
from tests.support.tiers import long

pytestmark = pytest.mark.spark

TIMEOUT_S = PATIENCE_S

HEAD = f"""
import cleancut
from pyspark.sql import SparkSession
def builder():
    made = SparkSession.Builder().master("local[1]")
    return made.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
def has_provider(spark):
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.loadClass("{PROVIDER_CLASS}").getName() == "{PROVIDER_CLASS}"
def outcome(operation):
    try:
        operation()
        print("OUTCOME accepted")
    except cleancut.RequestError as error:
        print("OUTCOME", error)
"""


def clean_environment(**variables: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPARK_", "PYSPARK_"))
    }
    return kept | variables


def run(command: list[str], environment: Mapping[str, str]) -> str:
    answer = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return "\n".join(line for line in answer.stdout.splitlines() if line.startswith("OUTCOME"))


def run_code(code: str, **variables: str) -> str:
    return run([sys.executable, "-c", HEAD + code], clean_environment(**variables))


@pytest.fixture
def other_jar(tmp_path: Path) -> str:
    path = tmp_path / "other.jar"
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("other.txt", "a resource")
    return str(path)


def test_the_session_has_the_provider_on_its_class_path(spark: SparkSession) -> None:
    # Read from the context, because other tests change the configuration of the session.
    assert spark.sparkContext.getConf().get(PROVIDER_KEY) == PROVIDER_CLASS
    assert spark._jvm is not None
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    assert loader.loadClass(PROVIDER_CLASS).getName() == PROVIDER_CLASS


# A query with state in Cleancut, on the available executors: its provider and its rules.
QUERY = """
def check(spark, home):
    import json, os
    os.makedirs(home + "/in", exist_ok=True)
    with open(home + "/in/1.json", "w") as file:
        file.write("\\n".join(json.dumps({"k": k}) for k in (1, 1, 2)))
    counts = spark.readStream.schema("k int").json(home + "/in").groupBy("k").count()
    query = counts.writeStream.outputMode("update").foreachBatch(
        cleancut.sinks.sealed(lambda rows, epoch: rows.collect()))
    query = query.option("checkpointLocation", home + "/checkpoint").trigger(availableNow=True)
    query = query.start()
    query.awaitTermination()
    plan = query._jsq.streamingQuery().lastExecution().executedPlan().toString()
    rows = cleancut.Checkpoint(home + "/checkpoint").state(0).num_rows
    print("OUTCOME", rows, "rows,", "with" if "Channel" in plan else "without", "channels")
"""
DONE = "OUTCOME 2 rows, with channels"
CONFIGURED = """
made = SparkSession.builder.config("spark.sql.shuffle.partitions", "1")
spark = cleancut.configure(made, cuts=True, mode="unaligned").getOrCreate()
"""


@long
@pytest.mark.parametrize("master", ["local[1]", "local-cluster[1,1,1024]"])
def test_a_running_session_gets_the_missing_settings(tmp_path: Path, master: str) -> None:
    code = f"""
running = builder().master({master!r}).getOrCreate()
running.range(3).count()
{CONFIGURED}
assert spark is running
check(spark, {str(tmp_path)!r})
"""
    assert run_code(QUERY + code) == DONE


@long
def test_a_session_after_a_session_without_the_jar_gets_it(tmp_path: Path) -> None:
    """Its JVM continues when it is stopped, and spark.jars no longer affects its class path."""
    code = f"""
builder().getOrCreate().stop()
{CONFIGURED}
check(spark, {str(tmp_path)!r})
"""
    assert run_code(QUERY + code, MASTER="local[1]") == DONE


@long
def test_jars_of_the_user_are_kept_and_a_second_session_is_accepted(other_jar: str) -> None:
    code = f"""
spark = cleancut.configure(builder().config("spark.jars", {other_jar!r})).getOrCreate()
loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
print("OUTCOME", has_provider(spark), loader.getResource("other.txt") is not None)
spark.stop()
spark = cleancut.configure(builder(), compression_level=3).getOrCreate()
level = spark.conf.get("spark.sql.streaming.stateStore.cleancut.compressionLevel")
print("OUTCOME", has_provider(spark), level)
"""
    assert run_code(code).splitlines() == ["OUTCOME True True", "OUTCOME True 3"]


@long
def test_jars_in_submit_args_work_as_documented_by_the_error(other_jar: str) -> None:
    jars = f"{other_jar},{listed(cleancut.jar_paths())}"
    code = """
spark = cleancut.configure(builder()).getOrCreate()
print("OUTCOME", has_provider(spark), spark.conf.get("spark.jars").count(".jar"))
"""
    arguments = f"--jars {jars} pyspark-shell"
    assert run_code(code, PYSPARK_SUBMIT_ARGS=arguments) == "OUTCOME True 3"


def submit(script: Path, *arguments: str, **variables: str) -> str:
    spark_submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    environment = clean_environment(PYSPARK_PYTHON=sys.executable, **variables)
    command = [str(spark_submit), "--master", "local[1]", *arguments, str(script)]
    return run(command, environment)


@long
@pytest.mark.parametrize("how", ["nothing", "jars", "conf", "defaults", "py-files"])
def test_spark_submit_runs_a_script_as_python_does(
    how: str, tmp_path: Path, other_jar: str
) -> None:
    script = tmp_path / "job.py"
    script.write_text(HEAD + QUERY + CONFIGURED + f"check(spark, {str(tmp_path)!r})\n")
    (tmp_path / "conf").mkdir()
    lines = f"spark.jars {other_jar}\n" if how == "defaults" else ""
    (tmp_path / "conf" / "spark-defaults.conf").write_text(lines)
    (tmp_path / "mine.py").write_text("X = 1\n")
    arguments = {
        "jars": ["--jars", f"{other_jar},{listed(cleancut.jar_paths())}"],
        "conf": ["--conf", f"spark.jars={other_jar}"],
        "py-files": ["--py-files", str(tmp_path / "mine.py")],
    }.get(how, [])
    assert submit(script, *arguments, SPARK_CONF_DIR=str(tmp_path / "conf")) == DONE


@long
def test_spark_submit_accepts_the_output_of_conf(tmp_path: Path) -> None:
    conf = [sys.executable, "-m", "cleancut", "conf", "--lock-acquire-timeout", "30s"]
    answer = subprocess.run(conf, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    arguments = answer.stdout.replace("\\\n", " ").split()
    script = tmp_path / "job.py"
    body = """
spark = cleancut.configure(builder()).getOrCreate()
timeout = spark.conf.get("spark.sql.streaming.stateStore.cleancut.lockAcquireTimeout")
print("OUTCOME", has_provider(spark), timeout)
"""
    script.write_text(HEAD + body, encoding="utf-8")
    assert submit(script, *arguments) == "OUTCOME True 30s"


@long
def test_the_shell_configures_its_running_session(tmp_path: Path) -> None:
    shell = Path(pyspark.__file__).parent / "bin" / "pyspark"
    startup = tmp_path / "typed.py"
    startup.write_text(HEAD + QUERY + CONFIGURED + f"check(spark, {str(tmp_path)!r})\n")
    answer = subprocess.run(
        [str(shell), "--master", "local[1]"],
        env=clean_environment(PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable),
        input=f"exec(open({str(startup)!r}).read())\n",
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert DONE in answer.stdout, answer.stdout + answer.stderr


@long
def test_spark_refuses_transform_with_state_without_the_extension(tmp_path: Path) -> None:
    code = f"""
from pyspark.errors import StreamingQueryException
from tests.support.processors import OUTPUT, RowLedger
spark = cleancut.configure(builder()).config("spark.sql.extensions", "").getOrCreate()
rows = spark.readStream.format("rate").load().selectExpr("int(value) k")
ledger = RowLedger(event_time=False)
states = rows.groupBy("k").transformWithState(ledger, OUTPUT, "update", "processingTime")
query = states.writeStream.format("noop").outputMode("update")
query = query.option("checkpointLocation", {str(tmp_path)!r}).start()
try:
    query.awaitTermination()
except StreamingQueryException as failure:
    print("OUTCOME", cleancut.errors.from_java(failure))
"""
    text = run_code(code, PYSPARK_PYTHON=sys.executable)
    assert "[CLEANCUT_EXTENSION_MISSING]" in text
    assert "spark.sql.extensions=io.cleancut.CleancutExtensions" in text
