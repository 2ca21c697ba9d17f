"""The driver of a session, where Cleancut's JVM side is: by py4j, or over Spark Connect.

Both give the objects that are there for callers outside of the JVM, and call their methods alike.
What such a method takes in the place of a session or of a DataFrame is made here.
"""

import base64
import json
import uuid
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

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
# Of io.cleancut's plugin for Spark Connect; another version of the call has another name.
_CALL = "cleancut.io/call/1"


class StateFamily(NamedTuple):
    """Where rows of state belong: Spark's operator id, its store, the column family."""

    operator: int
    store: str
    family: str


class Driver(Protocol):
    """What a session's driver can be asked for."""

    @property
    def session(self) -> Any:
        """What a method of the JVM side takes in the place of a session."""

    def side(self, of: Side) -> Any:
        """An object of the JVM side, with its methods.

        Raises:
            RequestError: CLEANCUT_JAR_NOT_LOADED, the driver lacks Cleancut.
        """

    def given(self, df: "DataFrame") -> Any:
        """What a method takes in the place of a DataFrame."""

    def rows(self, state: "Sequence[tuple[StateFamily, DataFrame]]") -> Any:
        """What `bootstrap` and `migrate` take as rows of state."""

    def frame(self, told: Any) -> "DataFrame":
        """The DataFrame that a method has given."""


class ClassicDriver:
    """Implements `Driver` in the process of the driver, by py4j.

    Args:
        jvm: as py4j gives it.
        session: the session.
        own: in the JVM, that of a query, in the place of it.
    """

    def __init__(self, jvm: Any, session: Any, own: Any = None) -> None:
        self._jvm = jvm
        self._session = session
        self._own = own

    @property
    def session(self) -> Any:
        return self._session._jsparkSession if self._own is None else self._own

    def side(self, of: Side) -> Any:
        return jvm_side(self._jvm, _CLASSES[of])

    def given(self, df: "DataFrame") -> Any:
        return df._jdf

    def rows(self, state: "Sequence[tuple[StateFamily, DataFrame]]") -> Any:
        found = self._jvm.java.util.ArrayList()
        for family, rows in state:
            found.add(self.side("offline").rows(*family, self.given(rows)))
        return found

    def frame(self, told: Any) -> "DataFrame":
        from pyspark.sql.classic.dataframe import DataFrame

        return DataFrame(told, self._session)


class _OfSession:
    """In the place of a session, which is the server's."""


class ConnectDriver:
    """Implements `Driver` for a client of Spark Connect, whose server has Cleancut's plugin.

    Args:
        session: the client's.
        run_id: Spark's id of the run of a query, whose session is taken in the place of it.
    """

    def __init__(self, session: Any, run_id: str | None = None) -> None:
        self._session = session
        self._run_id = run_id
        self.session: Any = _OfSession()

    def side(self, of: Side) -> Any:
        return _RemoteSide(self, of)

    def given(self, df: "DataFrame") -> Any:
        sent: Any = df
        relation = sent._plan.plan(self._session.client).SerializeToString()
        return {"relation": base64.b64encode(relation).decode("ascii")}

    def rows(self, state: "Sequence[tuple[StateFamily, DataFrame]]") -> Any:
        return [{**family._asdict(), "rows": self.given(rows)} for family, rows in state]

    def frame(self, told: Any) -> "DataFrame":
        from pyspark.sql.connect.dataframe import DataFrame
        from pyspark.sql.connect.plan import CachedRemoteRelation

        return DataFrame(CachedRemoteRelation(told["relation"], self._session), self._session)

    def call(self, of: Side, method: str, *arguments: Any) -> Any:
        """Calls a method of an object on the server's driver.

        Raises:
            RequestError: CLEANCUT_CONNECT_UNSUPPORTED, the server has not the plugin; or any error
                of the method.
        """
        from pyspark.errors import PySparkException
        from pyspark.sql.connect.dataframe import DataFrame

        sent = [one for one in arguments if not isinstance(one, _OfSession)]
        asked = {"of": of, "method": method, "arguments": sent, "query": self._run_id}
        # Spark may keep the plan of a relation that it has seen.
        text = json.dumps(asked | {"id": uuid.uuid4().hex})
        try:
            rows = DataFrame(_relation(_CALL, text.encode()), self._session).collect()
        except PySparkException as failure:
            found = from_connect(failure)
            if found is not None:
                raise found from failure
            if _lacks_plugin(failure):
                detail = "its server has not the plugin that answers them"
                raise error_of("CLEANCUT_CONNECT_UNSUPPORTED", detail=detail) from failure
            raise
        return json.loads(rows[0][0])["value"]


class _RemoteSide:
    def __init__(self, driver: ConnectDriver, of: Side) -> None:
        self._driver = driver
        self._of = of

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
        session: of either kind.
        run_id: of one of Spark Connect: that of a query, whose session is taken in the place of it.
    """
    if is_connect(session):
        return ConnectDriver(session, run_id)
    return ClassicDriver(session._jvm, session)


def text_of(told: Any) -> str | None:
    """A text that may be missing: py4j gives Scala's option, a server the text or nothing."""
    if told is None or isinstance(told, str):
        return told
    return str(told.get()) if told.isDefined() else None
