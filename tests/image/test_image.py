"""The image of docs/operations/kubernetes.md, built by its recipe, with a query killed in it.

`make image` runs this. It needs Debian's `buildah`, `debootstrap` and `runc`, and root.
The image to begin with is made here, of Debian's packages and of Spark as PySpark brings it, since
images of others are on no registry of packages.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import py4j
import pyspark
import pytest

import cleancut
from cleancut._spark.installed import SPARK, spark_line
from tests.support.documented import ROOT, blocks
from tests.support.seeds import fixed

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("buildah", "debootstrap"))) or os.geteuid() != 0,
    reason="needs buildah and debootstrap, and root",
)

KUBERNETES = "docs/operations/kubernetes.md"
CACHE = ROOT / ".cache" / "image"
WHEEL = ROOT / "dist"
TIMEOUT_S = 900
PACKAGES = "ca-certificates,openjdk-17-jre-headless,procps,python3,python3-pip"
BASE = "localhost/spark"
BASE_FILE = r"""
FROM scratch
ADD debian.tar /
ENV PYTHONPATH=/opt/spark/python PATH=/opt/spark/bin:/usr/local/bin:/usr/sbin:/usr/bin:/bin
COPY spark /opt/spark
RUN useradd --system --uid 185 --home-dir /opt/spark spark \
  && mkdir /opt/spark/work && chown spark /opt/spark/work
"""
FILES, ROWS, KEYS = 60, 400, 97
JOB = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("k int").option("maxFilesPerTrigger", 1).json("/work/in")
query = rows.groupBy("k").count().writeStream.outputMode("update").format("noop")
query = query.option("checkpointLocation", "/work/checkpoint").trigger(availableNow=True).start()
query.awaitTermination()
print("PYTHON PACKAGE", __import__("cleancut").__version__)
"""
# What this machine asks its registries with.
SHARED = [Path("/etc/pip.conf"), Path("/etc/ssl/certs/ca-certificates.crt")]


def buildah(*arguments: str, **more: object) -> "subprocess.CompletedProcess[str]":
    """Runs it with a storage of its own, without a kernel module or a daemon."""
    where = ["--storage-driver", "vfs", "--root", str(CACHE / "root")]
    where += ["--runroot", str(CACHE / "run")]
    options = {"capture_output": True, "text": True, "timeout": TIMEOUT_S} | more
    return subprocess.run(["buildah", *where, *arguments], **options)  # type: ignore[call-overload,no-any-return]


def built(context: Path, tag: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    mounts = [f"{path}:{path}:ro" for path in SHARED if path.exists()]
    options = ["--isolation", "chroot", "--network", "host", "--tag", tag]
    options += [option for mount in mounts for option in ("--volume", mount)]
    return buildah("build", *options, *arguments, str(context))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image with Spark, Java and Python in it, and nothing of ours."""
    debian = CACHE / "debian.tar"
    if not debian.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm"]
        subprocess.run([*command, str(CACHE / "debian")], check=True, timeout=TIMEOUT_S)
        subprocess.run(["tar", "-C", f"{CACHE}/debian", "-cf", debian, "."], check=True)
    context = tmp_path_factory.mktemp("base")
    shutil.copy(debian, context)
    spark = Path(pyspark.__file__).parent
    for part in ("bin", "jars", "sbin"):
        shutil.copytree(spark / part, context / "spark" / part)
    without = shutil.ignore_patterns("bin", "jars", "sbin", "__pycache__")
    shutil.copytree(spark, context / "spark" / "python" / "pyspark", ignore=without)
    shutil.copytree(Path(py4j.__file__).parent, context / "spark" / "python" / "py4j")
    (context / "Dockerfile").write_text(BASE_FILE)
    ended = built(context, BASE)
    assert ended.returncode == 0, ended.stderr
    return BASE


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the page says lies beside its recipe."""
    directory = tmp_path_factory.mktemp("context")
    (wheel,) = WHEEL.glob("cleancut-*.whl")
    (directory / "dist").mkdir()
    shutil.copy(wheel, directory / "dist")
    (dockerfile,) = blocks(KUBERNETES, "dockerfile")
    (defaults,) = blocks(KUBERNETES, "properties")
    (directory / "Dockerfile").write_text(dockerfile)
    (directory / "spark-defaults.conf").write_text(defaults)
    return directory


@pytest.fixture(scope="module")
def container(base: str, context: Path) -> Iterator[str]:
    arguments = ["--build-arg", f"BASE={base}", "--build-arg", f"LINE={spark_line()}"]
    ended = built(context, "localhost/cleancut", *arguments)
    assert ended.returncode == 0, ended.stderr
    name = buildah("from", "localhost/cleancut").stdout.strip()
    yield name
    buildah("rm", name)


def test_another_line_than_that_of_the_image_ends_the_build(base: str, context: Path) -> None:
    other = next(line for line in SPARK if line != spark_line())
    ended = built(
        context, "localhost/other", "--build-arg", f"BASE={base}", "--build-arg", f"LINE={other}"
    )
    assert ended.returncode != 0
    assert f"spark-core_2.13-{other}.*" in ended.stderr


class Driver:
    """A job in a container, with two executors in processes of their own."""

    def __init__(self, container: str, work: Path, life: int) -> None:
        self._work = work
        self._log = (work / f"{life}.log").open("w")
        inside = ["/opt/spark/bin/spark-submit", "--master", "local-cluster[2,1,1024]"]
        for key, value in {
            "spark.sql.shuffle.partitions": 3,
            "spark.sql.streaming.stateStore.cleancut.cuts": "true",
            "spark.ui.enabled": "false",
        }.items():
            inside += ["--conf", f"{key}={value}"]
        command = ["run", "--isolation", "chroot", "--network", "host"]
        # A pod has a name that can be resolved.
        command += ["--env", "SPARK_LOCAL_IP=127.0.0.1", "--volume", f"{work}:/work"]
        command += [container, "--", *inside, "/work/job.py"]
        where = ["--storage-driver", "vfs", "--root", str(CACHE / "root")]
        where += ["--runroot", str(CACHE / "run")]
        self.process = subprocess.Popen(
            ["buildah", *where, *command], stdout=self._log, stderr=subprocess.STDOUT
        )

    def epochs(self) -> int:
        """How many are committed."""
        return sum(1 for path in self._work.glob("checkpoint/commits/[0-9]*"))

    def wait(self, until: Callable[[], bool]) -> None:
        limit = time.monotonic() + TIMEOUT_S
        while not until() and self.process.poll() is None:
            assert time.monotonic() < limit
            time.sleep(0.02)

    def kill(self, named: str) -> int:
        """SIGKILL for the processes with this in their command line; gives how many there were."""
        found = [pid for pid in descendants(self.process.pid) if named in command_of(pid)]
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        return len(found)

    def ended(self) -> int:
        code = self.process.wait(TIMEOUT_S)
        self._log.close()
        return code


def descendants(of: int) -> list[int]:
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(path.parent.name)] = int(fields[1])
    found = {of}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found - {of})


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def test_a_query_in_the_image_counts_every_row_once_through_kills(
    container: str, tmp_path: Path, show: Callable[[str], None]
) -> None:
    seed = fixed(2811)
    random.seed(seed)
    (tmp_path / "in").mkdir()
    expected: Counter[int] = Counter()
    for number in range(FILES):
        keys = [random.randrange(KEYS) for _ in range(ROWS)]
        expected.update(keys)
        lines = "".join(json.dumps({"k": key}) + "\n" for key in keys)
        (tmp_path / "in" / f"{number:03}.json").write_text(lines)
    (tmp_path / "job.py").write_text(JOB)
    # The image's user is not the one that runs this.
    subprocess.run(["chmod", "-R", "a+rwX", tmp_path], check=True)
    executors = 0
    first, second = sorted(random.sample(range(5, FILES - 15), 2))
    driver = Driver(container, tmp_path, 1)
    driver.wait(lambda: driver.epochs() >= first)
    executors += driver.kill("--executor-id 0")
    driver.wait(lambda: driver.epochs() >= max(second, first + 5))
    drivers = driver.kill("org.apache.spark.deploy.SparkSubmit")
    assert driver.ended() != 0
    then = driver.epochs()
    again = Driver(container, tmp_path, 2)
    assert again.ended() == 0, (tmp_path / "2.log").read_text()[-4000:]
    assert (executors, drivers) == (1, 1)
    assert then < FILES
    assert f"PYTHON PACKAGE {cleancut.__version__}" in (tmp_path / "2.log").read_text()
    found = cleancut.Checkpoint(tmp_path / "checkpoint")
    assert found.verify().ok
    counts = {row["key"]["k"]: row["value"]["count"] for row in found.state(0).to_pylist()}
    lost = sum(max(0, expected[key] - counts.get(key, 0)) for key in expected)
    doubled = sum(max(0, count - expected[key]) for key, count in counts.items())
    show(f"seed {seed}: {drivers} driver and {executors} executor killed, {lost=}, {doubled=}")
    assert counts == dict(expected)
    in_image = buildah(
        *("run", "--isolation", "chroot", "--volume", f"{tmp_path}:/work", container, "--"),
        *("python3", "-m", "cleancut", "verify", "/work/checkpoint"),
    )
    assert in_image.returncode == 0, in_image.stderr
