"""The class path of a JVM that runs already, and what it lacks of Cleancut."""

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from cleancut._provider import PROVIDER_CLASS


def running_jvm() -> Any | None:
    """py4j's view of the JVM that runs already; None where PySpark is still to start one.

    It runs when a session was stopped in this process, and from the start under spark-submit.
    """
    from pyspark import SparkContext

    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    SparkContext._ensure_initialized()
    return SparkContext._jvm


def jars_of_spark(jvm: Any) -> Path:
    """The directory that the JVM has Spark's jars from."""
    core = jvm.java.lang.Class.forName("org.apache.spark.SparkContext")
    return Path(core.getProtectionDomain().getCodeSource().getLocation().getPath()).parent


def listed(jars: Iterable[str]) -> str:
    """As Spark's settings and arguments have them."""
    return ",".join(jars)


def loaded_from(jvm: Any) -> str | None:
    """The jar or directory that the JVM has Cleancut from; None where it has none."""
    from py4j.protocol import Py4JJavaError

    try:
        found = _loader(jvm).loadClass(PROVIDER_CLASS)
    except Py4JJavaError:
        return None
    return str(found.getProtectionDomain().getCodeSource().getLocation().getPath())


def add_to_class_path(jvm: Any, jars: Sequence[str]) -> bool:
    """Adds jars to what the JVM loads classes from. Returns whether it has Cleancut then.

    Under spark-submit, in a shell, and in every JVM that PySpark has started, the class loader of
    Spark is one that takes further jars, as it does for those of `--jars`.
    """
    from py4j.protocol import Py4JError

    try:
        for jar in jars:
            _loader(jvm).addURL(jvm.java.io.File(jar).toURI().toURL())
    except Py4JError:
        return False
    return loaded_from(jvm) is not None


def way_in(jars: Sequence[str], extension: str) -> str:
    """How Spark is to be started here, so that it has jars and extension from the start."""
    confs = f"spark.jars={listed(jars)} and spark.sql.extensions={extension}"
    arguments = f"--jars {listed(jars)} --conf spark.sql.extensions={extension}"
    if hasattr(sys, "ps1") and "ipykernel" not in sys.modules:
        return f"by pyspark {arguments}"
    if "ipykernel" in sys.modules:
        return f"with {confs}, or restart the kernel and configure Cleancut before anything else"
    names = " and ".join(PurePosixPath(jar).name for jar in jars)
    image = f"from an image that has {names} in $SPARK_HOME/jars"
    return f"with {arguments} of spark-submit, or {image}"


def _loader(jvm: Any) -> Any:
    # Spark loads the provider by this very class loader.
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()
