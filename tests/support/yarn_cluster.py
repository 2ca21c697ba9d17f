"""A YARN cluster in one JVM: a resource manager, and two node managers that start containers.

`python -m tests.support.yarn_cluster <home>` runs it until its standard input ends.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.processes import ProcessTree
from tests.support.kills import environment
from tests.support.stranger import await_, kill, pids

# Written by `make servers`.
CLASS_PATH = Path(__file__).resolve().parents[2] / ".cache" / "yarn.classpath"
needs_yarn = pytest.mark.skipif(not CLASS_PATH.exists(), reason="`make servers` has not been run")

_QUEUE = "yarn.scheduler.capacity.root.default"
_SETTINGS = {
    "yarn.nodemanager.aux-services": "",
    "yarn.nodemanager.resource.memory-mb": "6144",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    # Independent of the free space of this machine.
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
    "yarn.scheduler.minimum-allocation-mb": "256",
    "yarn.scheduler.capacity.root.queues": "default",
    f"{_QUEUE}.capacity": "100",
    f"{_QUEUE}.maximum-am-resource-percent": "1.0",
}


@contextlib.contextmanager
def yarn(home: Path) -> Iterator[Path]:
    """Runs a cluster until the context ends; yields the directory for `HADOOP_CONF_DIR`."""
    conf, log = home / "conf", home / "log"
    command = [sys.executable, "-m", "tests.support.yarn_cluster", str(home)]
    try:
        with ProcessTree(command, env=environment(), log=log) as cluster:
            await_(lambda: (conf / "ready").exists() or cluster.exit_code() is not None, log)
            assert cluster.exit_code() is None, log.read_text()[-4000:]
            yield conf
    finally:
        # Containers have separate process sessions, which outlive that of the cluster.
        for left in list(pids(str(home))):
            with contextlib.suppress(ProcessLookupError):
                kill(left)


def main(home: Path) -> None:
    """Starts the cluster, writes its configuration directory, and waits."""
    jars = CLASS_PATH.read_text()
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        f"--driver-class-path {jars} --driver-memory 512m "
        f"--driver-java-options -Dtest.build.data={home} pyspark-shell"
    )
    os.chdir(home)
    from pyspark.java_gateway import launch_gateway

    jvm = launch_gateway().jvm  # type: ignore[no-untyped-call]  # PySpark has no types for it
    conf = jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()
    for key, value in _SETTINGS.items():
        conf.set(key, value)
    cluster = jvm.org.apache.hadoop.yarn.server.MiniYARNCluster("yarn", 2, 1, 1)
    cluster.init(conf)
    cluster.start()
    assert cluster.waitForNodeManagersToConnect(60_000)
    written = home / "conf"
    written.mkdir()
    (written / "core-site.xml").write_text("<configuration/>")
    site = jvm.java.io.FileOutputStream(str(written / "yarn-site.xml"))
    cluster.getConfig().writeXml(site)
    site.close()
    (written / "ready").touch()
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
