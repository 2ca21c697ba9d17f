"""Sessions beside one of the user's."""

from typing import TYPE_CHECKING, Any

from cleancut._spark.connect import is_connect
from cleancut.errors import error_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def require_jvm(session: "SparkSession", user: str) -> None:
    """Refuses a session of Spark Connect.

    Args:
        session: of either kind.
        user: what needs more, for the error.

    Raises:
        RequestError: CLEANCUT_CONNECT_UNSUPPORTED.
    """
    if is_connect(session):
        detail = f"{user} needs the JVM of the driver, which a client has not"
        raise error_of("CLEANCUT_CONNECT_UNSUPPORTED", detail=detail)


def copy_of(session: "SparkSession", user: str) -> "SparkSession":
    """A session with all that is set in another one by now; what is set in it is set there alone.

    Args:
        session: the other one.
        user: what needs it, for the error.

    Raises:
        RequestError: CLEANCUT_CONNECT_UNSUPPORTED.
    """
    require_jvm(session, user)
    own: Any = session._jsparkSession
    return type(session)(session.sparkContext, own.cloneSession())
