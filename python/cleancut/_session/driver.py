"""The driver of a session, which has Cleancut's JVM side: through py4j or Spark Connect.

Both implementations return the same objects for callers outside the JVM, with the same methods.
Arguments that represent a session or a DataFrame are created here.
"""

import base64
import json
import uuid
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from cleancut._error_messages import show_errors_first
from cleancut._session.connect import is_connect, jvm_side
from cleancut.errors import error_of, from_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Side = Literal["coordinator", "offline", "seal", "sequence", "sinks"]

_CLASSES: dict[Side, str] = {
    "coordinator": "io.cleancut.CleancutCoordinator",
    "offline": "io.cleancut.CleancutOffline",
    "seal": "io.cleancut.CleancutSeal",
    "sequence": "io.cleancut.CleancutSequence",
    "sinks": "io.cleancut.CleancutSinks",
}
# The name in io.cleancut's plugin for Spark Connect; another version of the call has another name.
_CALL = "cleancut.io/call/1"


class StateFamily(NamedTuple):
    """The location of state rows: Spark's operator id, its store, the column family."""

    operator: int
    store: str
    family: str


class Driver(Protocol):
    """The interface of a session's driver."""

    @property
    def session(self) -> Any:
        """The argument that represents the session."""

    def side(self, side: Side) -> Any:
        """An object of the JVM side, with its methods.

        Raises:
            RequestError: CLEANCUT_JAR_NOT_LOADED, the driver lacks Cleancut.
        """

    def given(self, df: "DataFrame") -> Any:
        """The argument that represents a DataFrame."""

    def rows(self, state: "Sequence[tuple[StateFamily, DataFrame]]") -> Any:
        """The argument of `bootstrap` and `migrate` for rows of state."""

    def frame(self, handle: Any) -> "DataFrame":
        """The DataFrame of a method's result."""


class ClassicDriver:
    """Implements `Driver` in the driver's process, through py4j.

    Args:
        jvm: the JVM of py4j.
        session: the session.
        query_session: the JVM session of a query, used instead of `session`.
    """

    def __init__(self, jvm: Any, session: Any, query_session: Any = None) -> None:
        self._jvm = jvm
        self._session = session
        self._own = query_session

    @property
    def session(self) -> Any:
        return self._session._jsparkSession if self._own is None else self._own

    def side(self, side: Side) -> Any:
        return jvm_side(self._jvm, _CLASSES[side])

    def given(self, df: "DataFrame") -> Any:
        return df._jdf

    def rows(self, state: "Sequence[tuple[StateFamily, DataFrame]]") -> Any:
        states = self._jvm.java.util.ArrayList()
        for family, rows in state:
            states.add(self.side("offline").rows(*family, self.given(rows)))
        return states

    def frame(self, handle: Any) -> "DataFrame":
        from pyspark.sql.classic.dataframe import DataFrame

        return DataFrame(handle, self._session)


class _OfSession:
    """Represents a session, which is that of the server."""


class ConnectDriver:
    """Implements `Driver` for a client of Spark Connect, whose server has Cleancut's plugin.

    Args:
        session: the session of the client.
        run_id: Spark's id of a query's run, whose session is used instead.
    """

    def __init__(self, session: Any, run_id: str | None = None) -> None:
        self._session = session
        self._run_id = run_id
        self.session: Any = _OfSession()

    def side(self, side: Side) -> Any:
        return _RemoteSide(self, side)

    def given(self, df: "DataFrame") -> Any:
        sent: Any = df
        relation = sent._plan.plan(self._session.client).SerializeToString()
        return {"relation": base64.b64encode(relation).decode("ascii")}

    def rows(self, state: "Sequence[tuple[StateFamily, DataFrame]]") -> Any:
        return [{**family._asdict(), "rows": self.given(rows)} for family, rows in state]

    def frame(self, handle: Any) -> "DataFrame":
        from pyspark.sql.connect.dataframe import DataFrame
        from pyspark.sql.connect.plan import CachedRemoteRelation

        return DataFrame(CachedRemoteRelation(handle["relation"], self._session), self._session)

    def call(self, side: Side, method: str, *arguments: Any) -> Any:
        """Calls a method of an object on the server's driver.

        Raises:
            RequestError: CLEANCUT_CONNECT_UNSUPPORTED, the server lacks the plugin; or any error of
                the method.
        """
        from pyspark.errors import PySparkException
        from pyspark.sql.connect.dataframe import DataFrame

        sent = [one for one in arguments if not isinstance(one, _OfSession)]
        call = {"of": side, "method": method, "arguments": sent, "query": self._run_id}
        # Unique, because Spark may cache the plan of a relation.
        text = json.dumps(call | {"id": uuid.uuid4().hex})
        try:
            rows = DataFrame(_relation(_CALL, text.encode()), self._session).collect()
        except PySparkException as failure:
            error = from_connect(failure)
            if error is not None:
                raise error from failure
            if _lacks_plugin(failure):
                detail = "its server lacks the plugin that executes them"
                raise error_of("CLEANCUT_CONNECT_UNSUPPORTED", detail=detail) from failure
            raise
        return json.loads(rows[0][0])["value"]


class _RemoteSide:
    def __init__(self, driver: ConnectDriver, side: Side) -> None:
        self._driver = driver
        self._of = side

    def __getattr__(self, method: str) -> Any:
        return partial(self._driver.call, self._of, method)


def _relation(type_url: str, value: bytes) -> Any:
    """An extension of Spark's protocol, as the plan of a DataFrame."""
    from google.protobuf.any_pb2 import Any as AnyMessage
    from pyspark.sql.connect.plan import LogicalPlan

    class Call(LogicalPlan):
        def plan(self, session: Any) -> Any:
            made = self._create_proto_relation()
            made.extension.CopyFrom(AnyMessage(type_url=type_url, value=value))
            return made

    return Call(None)


def _lacks_plugin(failure: Exception) -> bool:
    return "No handler found for extension" in str(failure)


def driver_of(session: Any, run_id: str | None = None) -> Driver:
    """The driver of a session.

    Args:
        session: a session, classic or Connect.
        run_id: for Connect, the run of a query, whose session is used instead.
    """
    show_errors_first()
    if is_connect(session):
        return ConnectDriver(session, run_id)
    return ClassicDriver(session._jvm, session)


def text_of(value: Any) -> str | None:
    """An optional text: py4j returns Scala's Option, a server the text or None."""
    if value is None or isinstance(value, str):
        return value
    return str(value.get()) if value.isDefined() else None
