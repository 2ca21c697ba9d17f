"""Spark on YARN with the commands of its page, and drivers that are killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.test_starting import typed
from tests.support.stranger import (
    FILES,
    SPARK_HOME,
    Orders,
    Stranger,
    await_,
    kill,
    killed_and_typed_again,
    pids,
    pythons,
    wheel,
)
from tests.support.tiers import long
from tests.support.yarn_cluster import needs_yarn, yarn

pytestmark = [pytest.mark.spark, long, needs_yarn]

PAGE = "docs/get-started/starting/yarn.md"
# Small, and without copies of Spark's jars in each container.
SETTINGS = f"""
spark.yarn.jars local:{SPARK_HOME}/jars/*
spark.driver.memory 800m
spark.executor.memory 600m
spark.executor.instances 2
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return pythons(tmp_path_factory.mktemp("pythons"))


@pytest.fixture(scope="module")
def conf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with yarn(tmp_path_factory.mktemp("yarn")) as directory:
        yield directory


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    return Orders(tmp_path / "place", seed=len(tmp_path.name))


def stranger(home: Path, conf: Path, driver: Path, executors: Path) -> Stranger:
    made = Stranger(home, driver, executors, HADOOP_CONF_DIR=str(conf))
    with (home / "conf" / "spark-defaults.conf").open("a") as defaults:
        defaults.write(f"{SETTINGS}spark.yarn.stagingDir {home}/staging\n")
    return made


def test_client_mode(conf: Path, both: tuple[Path, Path], orders: Orders, tmp_path: Path) -> None:
    somebody = stranger(tmp_path / "home", conf, *both)
    killed_and_typed_again(somebody, typed(PAGE, 0, "", orders), orders, kills=1)


def test_cluster_mode_with_a_driver_restarted_by_yarn(
    conf: Path, both: tuple[Path, Path], orders: Orders, tmp_path: Path
) -> None:
    """The driver was refused: PySpark is in an archive there, and SPARK_HOME was not set."""
    _, without = both
    somebody = stranger(tmp_path / "home", conf, without, without)
    del somebody.variables["PYSPARK_DRIVER_PYTHON"]
    wheel(somebody.home)
    orders.write(range(FILES))
    with somebody.types(typed(PAGE, 1, "", orders), "log") as submitted:
        log = somebody.home / "log"

        def driver() -> list[int]:
            return list(pids("ApplicationMaster", "java", str(orders.place), "--primary-py-file"))

        await_(lambda: orders.epochs() > 1 or submitted.exit_code() is not None, log)
        assert driver()
        for killed in driver():
            kill(killed)
        assert orders.epochs() < FILES
        await_(lambda: submitted.exit_code() is not None, log)
        assert submitted.exit_code() == 0, log.read_text()[-4000:]
    assert "final status: SUCCEEDED" in log.read_text()
    # The first container of the second attempt.
    assert list(conf.parent.rglob("container_*_02_000001"))
    orders.check()
