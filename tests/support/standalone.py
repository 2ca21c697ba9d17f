"""A standalone cluster of Spark whose workers appear to be on different hosts.

Spark runs the copy of a slow task on another host only, and the executors of `local-cluster` are
all on one. Here each worker has an address of the loopback network.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyspark

from demo.ports import free_port, listens
from demo.processes import ProcessTree
from tests.support.kills import environment
from tests.support.patience import PATIENCE_S

_SPARK = Path(pyspark.__file__).parent
_PATIENCE_S = PATIENCE_S
_POLL_S = 0.1


@contextlib.contextmanager
def standalone(work: Path, hosts: Mapping[str, Mapping[str, str]], *, cores: int) -> Iterator[str]:
    """Starts a master and its workers until the context ends; yields the master's URL.

    Args:
        work: the directory of logs and of executors.
        hosts: the address of each worker, with variables for its executors.
        cores: the cores of each worker.

    Raises:
        AssertionError: a worker did not register in time; the message ends with the master's log.
    """
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:

        def run(name: str, *arguments: str, variables: Mapping[str, str]) -> Path:
            log = work / f"{name}.log"
            command = [str(_SPARK / "bin" / "spark-class"), *arguments]
            env = environment() | {"SPARK_HOME": str(_SPARK)} | dict(variables)
            stack.enter_context(ProcessTree(command, env=env, log=log))
            return log

        deploy = "org.apache.spark.deploy"
        on_master = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        master = run("master", f"{deploy}.master.Master", *on_master, variables={})
        _await(lambda: listens(port), master)
        for host, variables in hosts.items():
            given = ("--host", host, "--cores", str(cores), "--memory", "2g", "--webui-port", "0")
            place = ("--work-dir", str(work / host))
            run(host, f"{deploy}.worker.Worker", *given, *place, url, variables=variables)
        _await(lambda: master.read_text().count("Registering worker") == len(hosts), master)
        yield url


def _await(is_there: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not is_there():
        assert time.monotonic() < deadline, log.read_text()[-4000:]
        time.sleep(_POLL_S)
