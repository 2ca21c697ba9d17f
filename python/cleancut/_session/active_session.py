"""The Spark session, or the remaining JVM of a stopped one, that runs in this process."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cleancut._session.class_path import add_to_class_path, loaded_from, way_in
from cleancut._session.jars import without
from cleancut._session.settings import EXTENSION_CLASS
from cleancut.errors import CleancutError, error_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_classic(builder: object, options: dict[str, Any]) -> None:
    """Refuses Spark Connect, whose server is configured where it runs.

    Raises:
        RequestError: CLEANCUT_CONNECT_UNSUPPORTED, with the setting that requests Spark Connect.
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
        "this PySpark supports Spark Connect only": is_remote_only(),
    }
    for reason, applies in reasons.items():
        if applies:
            raise error_of("CLEANCUT_CONNECT_UNSUPPORTED", detail=reason)


def running_session() -> "SparkSession | None":
    """The running session of this process, created if only its context exists."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    if context is None:
        return None
    return SparkSession._instantiatedSession or SparkSession(context)


def client_session() -> Any | None:
    """The session of a Spark Connect client; does not import Connect if there is none."""
    client = sys.modules.get("pyspark.sql.connect.session")
    return None if client is None else client.SparkSession.getActiveSession()


def provide(jvm: Any, session: "SparkSession | None", jars: Sequence[str]) -> None:
    """Adds Cleancut to a running JVM, and to a running session.

    Raises:
        RequestError: CLEANCUT_SESSION_RUNNING, the JVM accepts no further jars.
    """
    if loaded_from(jvm) is None and not add_to_class_path(jvm, jars):
        lacks = "the jars are not on its class path, and cannot be added to it any more"
        raise cannot_join(lacks, jars)
    if session is not None:
        _attach(jvm, session, jars)


def cannot_join(detail: str, jars: Sequence[str]) -> CleancutError:
    """The error for a running Spark that lacks a part that it needs from its start."""
    way = way_in(jars, EXTENSION_CLASS)
    return error_of("CLEANCUT_SESSION_RUNNING", detail=detail, way=way)


def _attach(jvm: Any, session: "SparkSession", jars: Sequence[str]) -> None:
    """Adds the jars to executors, and the extension's rules to queries that start later.

    Each query runs in a copy of its session, which has the rules at the time of the copy.
    """
    context = session.sparkContext._jsc
    for jar in without(jars, map(str, _listed(context.sc().listJars()))):
        context.addJar(jar)
    # Does nothing if the session has it.
    jvm.io.cleancut.CleancutExtensions().apply(session._jsparkSession.extensions())


def _listed(scala: Any) -> list[Any]:
    return [scala.apply(i) for i in range(scala.size())]
