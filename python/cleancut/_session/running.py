"""What already runs in this process: a Spark session, or the JVM that a session left behind."""

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


def running_session() -> "SparkSession | None":
    """The session that runs in this process; one of the context that runs, if it has none yet."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    if context is None:
        return None
    return SparkSession._instantiatedSession or SparkSession(context)


def client_session() -> Any | None:
    """That of a client of Spark Connect; who has made none has not loaded what makes one."""
    client = sys.modules.get("pyspark.sql.connect.session")
    return None if client is None else client.SparkSession.getActiveSession()


def provide(jvm: Any, session: "SparkSession | None", jars: Sequence[str]) -> None:
    """Gives Cleancut to a JVM that runs already, and to a session that does.

    Raises:
        RequestError: CLEANCUT_SESSION_RUNNING, where the JVM takes no further jars.
    """
    if loaded_from(jvm) is None and not add_to_class_path(jvm, jars):
        lacks = "the jars are not on its class path, and can no longer be added to it"
        raise cannot_join(lacks, jars)
    if session is not None:
        _attach(jvm, session, jars)


def cannot_join(detail: str, jars: Sequence[str]) -> CleancutError:
    """The error for a Spark that runs and lacks what it must have had from the start."""
    way = way_in(jars, EXTENSION_CLASS)
    return error_of("CLEANCUT_SESSION_RUNNING", detail=detail, way=way)


def _attach(jvm: Any, session: "SparkSession", jars: Sequence[str]) -> None:
    """The jars go to executors, and the rules of the extension into queries that start later.

    Each query runs in a copy of its session, which is made with the rules that there are then.
    """
    context = session.sparkContext._jsc
    for jar in without(jars, map(str, _listed(context.sc().listJars()))):
        context.addJar(jar)
    # Which does nothing where the session has it.
    jvm.io.cleancut.CleancutExtensions().apply(session._jsparkSession.extensions())


def _listed(scala: Any) -> list[Any]:
    return [scala.apply(i) for i in range(scala.size())]
