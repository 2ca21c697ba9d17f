"""What already runs in this process: a Spark session, or the JVM that a session left behind."""

import os
from typing import Any

from cleancut._spark.settings import PROVIDER_CLASS
from cleancut.errors import error_of


def check_classic(builder: object, options: dict[str, Any]) -> None:
    """Refuses Spark Connect, whose server runs elsewhere and is configured there.

    Raises:
        RequestError: CLEANCUT_CONNECT_UNSUPPORTED, naming what asks for Spark Connect.
    """
    from pyspark.util import default_api_mode, is_remote_only

    mode = str(options.get("spark.api.mode", os.environ.get("SPARK_API_MODE", ""))).lower()
    if mode not in ("classic", "connect"):
        mode = default_api_mode()
    reasons = {
        "the builder is that of Spark Connect": ".connect." in type(builder).__module__,
        "the builder has a remote": "spark.remote" in options,
        "SPARK_REMOTE is set": "SPARK_REMOTE" in os.environ,
        "SPARK_CONNECT_MODE_ENABLED is set": "SPARK_CONNECT_MODE_ENABLED" in os.environ,
        "spark.api.mode is connect": mode == "connect",
        "this PySpark has nothing but Spark Connect": is_remote_only(),
    }
    for reason, applies in reasons.items():
        if applies:
            raise error_of("CLEANCUT_CONNECT_UNSUPPORTED", detail=reason)


def running_jvm() -> Any | None:
    """py4j's view of the JVM that runs already; None where PySpark is still to start one.

    It runs when a session was stopped in this process, and from the start under spark-submit.
    """
    from pyspark import SparkContext

    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    SparkContext._ensure_initialized()
    return SparkContext._jvm


def check_not_running(jvm: Any | None) -> None:
    """Refuses a session that runs, and a JVM whose class path lacks the jar and cannot get it.

    Raises:
        RequestError: CLEANCUT_SESSION_RUNNING.
    """
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        raise error_of("CLEANCUT_SESSION_RUNNING", detail="a session runs in this process")
    if jvm is not None and not _has_provider(jvm):
        detail = "this process already has a JVM, and the jar of Cleancut is not on its class path"
        raise error_of("CLEANCUT_SESSION_RUNNING", detail=detail)


def _has_provider(jvm: Any) -> bool:
    from py4j.protocol import Py4JJavaError

    # Spark loads the provider by this very class loader.
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(PROVIDER_CLASS)
    except Py4JJavaError:
        return False
    return True
