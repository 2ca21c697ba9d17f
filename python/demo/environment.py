"""The environment of a driver process."""

import importlib.util
import os
import sys
from pathlib import Path

from demo.job import Job

# In a run of some seconds the JVM's second compiler and concurrent garbage collection cost more
# than they save. Without the second compiler the JVM reserves little space for code by default.
_FOR_BRIEF_WORK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
_BRIEF_ROWS = 100_000


def driver_environment(job: Job) -> dict[str, str]:
    """Environment variables for the driver, its executors and its Python workers.

    Another Spark of the user is ignored, because the demo is about the pinned PySpark.
    """
    packages = str(Path(__file__).resolve().parents[1])
    inherited = os.environ.get("PYTHONPATH")
    foreign = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_DRIVER_PYTHON")
    environment = {key: value for key, value in os.environ.items() if key not in foreign}
    environment |= {
        "PYTHONPATH": os.pathsep.join(filter(None, [packages, inherited])),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONUNBUFFERED": "1",
        **_java_options(job, job.scratch / "tmp"),
    }
    if job.master.startswith("local-cluster"):
        environment["SPARK_HOME"] = str(_shadow_spark_home(job.scratch / "spark-home"))
    return environment


def _java_options(job: Job, directory: Path) -> dict[str, str]:
    """Returns the options of the environment, or options for short runs.

    Temporary files are below a directory that is emptied before each run; a killed process cannot
    delete its own.
    """
    directory.mkdir(parents=True, exist_ok=True)
    is_brief = job.kills > 0 and job.rows < _BRIEF_ROWS
    usual = _FOR_BRIEF_WORK if is_brief else None
    java = [os.environ.get("JAVA_TOOL_OPTIONS", usual), f'"-Djava.io.tmpdir={directory}"']
    return {"TMPDIR": str(directory), "JAVA_TOOL_OPTIONS": " ".join(filter(None, java))}


def _shadow_spark_home(shadow: Path) -> Path:
    """A Spark home of links to the installed one.

    Executors of `local-cluster` write their files to `work` in Spark's home, which for PySpark is
    the installed package.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'pyspark'")
    if not shadow.exists():
        shadow.mkdir()
        for entry in Path(spec.origin).parent.iterdir():
            if entry.name != "work":
                (shadow / entry.name).symlink_to(entry)
    return shadow
