"""Delta's connector for Spark, in the JVM of a session: what a sink asks of it."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cleancut._spark.copies import copy_of, require_jvm
from cleancut.errors import error_of, java_throwables
from cleancut.errors import of as of_call
from cleancut.sinks._core.database import scrubbed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The lines of Spark on which a sink writes by it, each with the module that is tested.
_MODULES = {"4.2": "io.delta:delta-spark_4.2_2.13:4.4.0"}
_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_CONFLICT = "org.apache.spark.sql.delta.DeltaConcurrentModificationException"
_INVARIANT = "org.apache.spark.sql.delta.schema.DeltaInvariantViolationException"
_BROKEN = "org.apache.spark.sql.AnalysisException"
_OF_TASKS = "org.apache.spark.SparkException"
_LOST = "java.io.IOException"
# It keeps two commits of one version apart within one JVM alone.
_SINGLE_DRIVER = "S3SingleDriverLogStore"


class ConnectorFailedError(Exception):
    """What the connector has failed with.

    Attributes:
        verdict: as that of `Reached`.
    """

    def __init__(self, verdict: str, detail: str) -> None:
        super().__init__(detail)
        self.verdict = verdict


class Connector:
    """What it does in one session, which is a copy of another one.

    What is set for a commit is set in the session, where no other query may see it.

    Attributes:
        session: the copy.
        jvm: of the driver.
    """

    def __init__(self, session: "SparkSession", sink: str) -> None:
        """Copies a session.

        Raises:
            RequestError: CLEANCUT_SINK_CONNECTOR_MISSING; CLEANCUT_CONNECT_UNSUPPORTED.
        """
        user = f"{sink} with writer='spark'"
        require_jvm(session, user)
        _check(session, sink)
        self.session = copy_of(session, user)
        # Else a commit says nothing of itself.
        self.session.conf.set("spark.databricks.delta.commitInfo.enabled", "true")
        jvm: Any = session._jvm
        self.jvm = jvm
        self.nothing: Any = jvm.scala.Option.empty()

    @property
    def own(self) -> Any:
        """The copy, in the JVM."""
        return self.session._jsparkSession

    @contextmanager
    def active(self, **settings: str) -> Iterator[None]:
        """Has the copy be the session of this thread, with some settings, by their last words."""
        sessions = self.jvm.org.apache.spark.sql.classic.SparkSession
        before = sessions.getActiveSession()
        keys = {f"spark.databricks.delta.{_KEYS[name]}": of for name, of in settings.items()}
        sessions.setActiveSession(self.own)
        try:
            for key, value in keys.items():
                self.session.conf.set(key, value)
            yield
        finally:
            for key in keys:
                self.session.conf.unset(key)
            if before.isDefined():
                sessions.setActiveSession(before.get())
            else:
                sessions.clearActiveSession()

    def log(self, uri: str) -> Any:
        """The log of a table, also where there is none."""
        return self.jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self.own, uri)

    def action(self, line: str) -> Any:
        """An action, as it stands in the log."""
        return self.jvm.org.apache.spark.sql.delta.actions.Action.fromJson(line)

    def transaction(self, application: str, version: int) -> Any:
        """The action that notes a version of an application."""
        of = self.jvm.org.apache.spark.sql.delta.actions.SetTransaction
        return of(application, version, self.nothing)

    def operation(self, query_id: str, epoch: int) -> Any:
        """How the history of the table calls a commit."""
        mode = self.jvm.org.apache.spark.sql.streaming.OutputMode.Append()
        operations = self.jvm.org.apache.spark.sql.delta.DeltaOperations
        return operations.StreamingUpdate(mode, query_id, epoch, self.nothing)

    def sequence(self, of: Iterable[Any]) -> Any:
        """Objects of the JVM, as Scala takes them."""
        found = self.jvm.java.util.ArrayList()
        for one in of:
            found.add(one)
        return self.jvm.scala.jdk.javaapi.CollectionConverters.asScala(found).toSeq()

    def path(self, base: str, name: str) -> Any:
        """A path of Hadoop's."""
        return self.jvm.org.apache.hadoop.fs.Path(base, name)

    def log_store(self, log: Any) -> str:
        """The name of the class that writes commits."""
        store = log.store()
        if hasattr(store, "getDelegate"):
            store = store.getDelegate(log.logPath())
        if hasattr(store, "logStoreImpl"):
            store = store.logStoreImpl()
        return str(store.getClass().getName())

    def keeps_drivers_apart(self, log: Any) -> bool:
        """Whether of two drivers that commit one version only one can."""
        return not self.log_store(log).endswith(_SINGLE_DRIVER)

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Raises what the connector fails with as what it is to a sink.

        Raises:
            ConnectorFailedError: any failure of the JVM but those of Cleancut's, which are raised
                as they are.
        """
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            yield
        except (PySparkException, Py4JJavaError) as failure:
            found = of_call(failure)
            if found is not None:
                raise found from failure
            raise ConnectorFailedError(self._verdict(failure), _words(failure)) from failure

    def _verdict(self, failure: Exception) -> str:
        behind = list(java_throwables(failure))
        for name, verdict in (
            (_CONFLICT, "again"),
            (_INVARIANT, "error"),
            (_BROKEN, "error"),
            (_LOST, "lost"),
            (_OF_TASKS, "lost"),
        ):
            if any(self.is_a(of, name) for of in behind):
                return verdict
        return "error"

    def is_a(self, given: Any, name: str) -> bool:
        """Whether an object of the JVM is of a class."""
        from py4j.java_gateway import is_instance_of

        gateway: Any = self.session.sparkContext._gateway
        return bool(is_instance_of(gateway, given, name))


# The settings of a commit.
_KEYS = {
    "entry": "commitInfo.userMetadata",
    "application": "write.txnAppId",
    "version": "write.txnVersion",
}


def _words(failure: Exception) -> str:
    """What the innermost cause says, whose class is told where it says nothing."""
    behind = list(java_throwables(failure))
    if not behind:
        return scrubbed(failure, ())
    told = behind[-1].getMessage()
    return scrubbed(told or behind[-1].getClass().getName(), ())


def _check(session: "SparkSession", sink: str) -> None:
    from py4j.java_gateway import JavaPackage

    jvm: Any = session._jvm
    line = ".".join(session.version.split(".")[:2])
    module = _MODULES.get(line)
    if module is None:
        problem = f"it is not used on Spark {session.version}"
    elif isinstance(jvm.org.apache.spark.sql.delta.DeltaLog, JavaPackage):
        problem = f"the driver has not its jars (`--packages {module}`)"
    else:
        lacking = [
            f"`--conf {key}={value}`"
            for key, value in _SETTINGS.items()
            if value not in (session.conf.get(key, "") or "").split(",")
        ]
        if not lacking:
            return
        problem = f"the session was not started with {' and '.join(lacking)}"
    raise error_of(
        "CLEANCUT_SINK_CONNECTOR_MISSING",
        sink=sink,
        problem=problem,
        lines=", ".join(_MODULES),
        modules=", ".join(f"`--packages {of}`" for of in _MODULES.values()),
        settings=", ".join(f"`--conf {key}={value}`" for key, value in _SETTINGS.items()),
    )
