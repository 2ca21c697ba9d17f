"""The class path of a running JVM, and the jars that it lacks."""

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from cleancut._provider import PROVIDER_CLASS


def running_jvm() -> Any | None:
    """py4j's view of the running JVM; None if PySpark has not started one.

    It runs if a session was stopped in this process, and always under spark-submit.
    """
    from pyspark import SparkContext

    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    SparkContext._ensure_initialized()
    return SparkContext._jvm


def jars_of_spark(jvm: Any) -> Path:
    """The directory from which the JVM loads Spark's jars."""
    core = jvm.java.lang.Class.forName("org.apache.spark.SparkContext")
    return Path(core.getProtectionDomain().getCodeSource().getLocation().getPath()).parent


def listed(jars: Iterable[str]) -> str:
    """Jars as Spark's settings and arguments list them."""
    return ",".join(jars)


def loaded_from(jvm: Any) -> str | None:
    """The jar or directory from which the JVM loads Cleancut; None if it has none."""
    from py4j.protocol import Py4JJavaError

    try:
        provider = _loader(jvm).loadClass(PROVIDER_CLASS)
    except Py4JJavaError:
        return None
    return str(provider.getProtectionDomain().getCodeSource().getLocation().getPath())


def add_to_class_path(jvm: Any, jars: Sequence[str]) -> bool:
    """Adds jars to the class path of the JVM; returns whether it can load Cleancut then.

    Under spark-submit, in a shell, and in every JVM that PySpark has started, Spark's class loader
    accepts further jars, as for `--jars`.
    """
    from py4j.protocol import Py4JError

    try:
        for jar in jars:
            _loader(jvm).addURL(jvm.java.io.File(jar).toURI().toURL())
    except Py4JError:
        return False
    return loaded_from(jvm) is not None


def way_in(jars: Sequence[str], extension: str) -> str:
    """The instruction to start Spark with jars and extension in this environment."""
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
    # Spark loads the provider by this class loader.
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()
