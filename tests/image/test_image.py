"""The image of docs/deploy/kubernetes.md, built by its recipe; a query in it is killed.

`make image` runs this. It needs Debian's `buildah`, `debootstrap` and `runc`, and root.
The image to begin with is made here, of Debian's packages and of Spark as PySpark brings it, since
images of others are on no registry of packages.
"""

import json
import os
import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import py4j
import pyspark
import pytest

import cleancut
from cleancut._session.installation import SPARK, spark_line
from demo.processes import ProcessTree
from tests.support.documented import ROOT, blocks
from tests.support.seeds import fixed

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("buildah", "debootstrap"))) or os.geteuid() != 0,
    reason="needs buildah and debootstrap, and root",
)

KUBERNETES = "docs/deploy/kubernetes.md"
STARTING = "docs/get-started/starting-spark.md"
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
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("k int").option("maxFilesPerTrigger", 1).json("/data/in")
query = rows.groupBy("k").count().writeStream.outputMode("update").format("noop")
query = query.option("checkpointLocation", "/data/checkpoint").trigger(availableNow=True).start()
query.awaitTermination()
print("PYTHON PACKAGE", __import__("cleancut").__version__)
"""
# Options for the registries of this machine.
SHARED = [Path("/etc/pip.conf"), Path("/etc/ssl/certs/ca-certificates.crt")]


# With separate storage, which needs no kernel module.
BUILDAH = ["buildah", "--storage-driver", "vfs"]
BUILDAH += ["--root", str(CACHE / "root"), "--runroot", str(CACHE / "run")]
# Containers as processes of this machine, on its network.
ISOLATED = ["--isolation", "chroot", "--network", "host"]


def buildah(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*BUILDAH, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S)


def built(context: Path, tag: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    mounts = [f"{path}:{path}:ro" for path in SHARED if path.exists()]
    volumes = [option for mount in mounts for option in ("--volume", mount)]
    return buildah("build", *ISOLATED, "--tag", tag, *volumes, *arguments, str(context))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image with Spark, Java and Python, without Cleancut."""
    debian = CACHE / "debian.tar"
    if not debian.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm"]
        subprocess.run([*command, str(CACHE / "debian")], check=True, timeout=TIMEOUT_S)
        subprocess.run(["tar", "-C", f"{CACHE}/debian", "-cf", debian, "."], check=True)
        shutil.rmtree(CACHE / "debian")
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
    yield BASE
    # Each image is a copy of a gigabyte and more.
    buildah("rm", "--all")
    buildah("rmi", "--all", "--force")


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the page expects next to its recipe."""
    directory = tmp_path_factory.mktemp("context")
    (wheel,) = WHEEL.glob("cleancut-*.whl")
    (directory / "dist").mkdir()
    shutil.copy(wheel, directory / "dist")
    (dockerfile,) = blocks(KUBERNETES, "dockerfile")
    (defaults,) = blocks(KUBERNETES, "properties")
    (directory / "Dockerfile").write_text(dockerfile)
    (directory / "spark-defaults.conf").write_text(defaults)
    (directory / "counts.py").write_text(blocks(STARTING, "python")[1])
    return directory


@pytest.fixture(scope="module")
def container(base: str, context: Path) -> str:
    arguments = ["--build-arg", f"BASE={base}", "--build-arg", f"LINE={spark_line()}"]
    ended = built(context, "localhost/cleancut", *arguments)
    assert ended.returncode == 0, ended.stderr
    return buildah("from", "localhost/cleancut").stdout.strip()


def test_another_line_than_that_of_the_image_ends_the_build(base: str, context: Path) -> None:
    other = next(line for line in SPARK if line != spark_line())
    ended = built(
        context, "localhost/other", "--build-arg", f"BASE={base}", "--build-arg", f"LINE={other}"
    )
    assert ended.returncode != 0
    assert f"spark-core_2.13-{other}.*" in ended.stderr


def driver(container: str, work: Path, life: int) -> ProcessTree:
    """Runs a job in a container, with two executors in separate processes."""
    settings = {
        "spark.sql.shuffle.partitions": 3,
        "spark.sql.streaming.stateStore.cleancut.cuts": "true",
        "spark.ui.enabled": "false",
    }
    submit = ["/opt/spark/bin/spark-submit", "--master", "local-cluster[2,1,1024]"]
    submit += [
        part for setting in settings.items() for part in ("--conf", "=".join(map(str, setting)))
    ]
    # A pod has a resolvable name.
    command = [*BUILDAH, "run", *ISOLATED, "--env", "SPARK_LOCAL_IP=127.0.0.1"]
    command += ["--volume", f"{work}:/data", container, "--", *submit, "/data/job.py"]
    return ProcessTree(command, env=dict(os.environ), log=work / f"{life}.log")


def test_a_query_in_the_image_counts_every_row_once_through_kills(
    container: str, tmp_path: Path, show: Callable[[str], None]
) -> None:
    seed = fixed(2811)
    draw = random.Random(seed)
    (tmp_path / "in").mkdir()
    expected: Counter[int] = Counter()
    for number in range(FILES):
        keys = [draw.randrange(KEYS) for _ in range(ROWS)]
        expected.update(keys)
        lines = "".join(json.dumps({"k": key}) + "\n" for key in keys)
        (tmp_path / "in" / f"{number:03}.json").write_text(lines)
    (tmp_path / "job.py").write_text(JOB)
    # The image's user differs from the user of the test.
    subprocess.run(["chmod", "-R", "a+rwX", tmp_path], check=True)
    first, second = sorted(draw.sample(range(5, FILES - 15), 2))

    def epochs() -> int:
        return sum(1 for _ in tmp_path.glob("checkpoint/commits/[0-9]*"))

    def ended(tree: ProcessTree, until: int | None = None) -> bool:
        """Waits for this number of committed epochs, or for the end."""
        limit = time.monotonic() + TIMEOUT_S
        while tree.exit_code() is None and (until is None or epochs() < until):
            assert time.monotonic() < limit
            time.sleep(0.02)
        return tree.exit_code() is not None

    with driver(container, tmp_path, 1) as tree:
        assert not ended(tree, first)
        assert tree.kill_executor(draw)
        assert not ended(tree, max(second, first + 5))
        assert tree.kill()
    assert epochs() < FILES
    with driver(container, tmp_path, 2) as tree:
        assert ended(tree)
        assert tree.exit_code() == 0, (tmp_path / "2.log").read_text()[-4000:]
    assert f"PYTHON PACKAGE {cleancut.__version__}" in (tmp_path / "2.log").read_text()
    checkpoint = cleancut.Checkpoint(tmp_path / "checkpoint")
    assert checkpoint.verify().ok
    counts = {row["key"]["k"]: row["value"]["count"] for row in checkpoint.state(0).to_pylist()}
    lost = sum(max(0, expected[key] - counts.get(key, 0)) for key in expected)
    duplicated = sum(max(0, count - expected[key]) for key, count in counts.items())
    show(f"seed {seed}: a driver and an executor killed, {lost} rows lost, {duplicated} duplicated")
    assert counts == dict(expected)
    in_image = buildah(
        *("run", *ISOLATED, "--volume", f"{tmp_path}:/data", container, "--"),
        *("python3", "-m", "cleancut", "verify", "/data/checkpoint"),
    )
    assert in_image.returncode == 0, in_image.stderr
