"""The JVM of a driver, and what has none: the client of Spark Connect."""

from typing import Any

from cleancut.errors import error_of


def is_connect(given: object) -> bool:
    """Whether a DataFrame, a session, or a query is one of Spark Connect."""
    return ".connect." in f"{type(given).__module__}."


def require_classic(given: object, what: str) -> None:
    """Refuses an object of Spark Connect.

    Args:
        given: a DataFrame, a session, or a query.
        what: what to call it.

    Raises:
        RequestError: CLEANCUT_CONNECT_UNSUPPORTED.
    """
    if is_connect(given):
        detail = f"the {what} is one of Spark Connect"
        raise error_of("CLEANCUT_CONNECT_UNSUPPORTED", detail=detail)


def jvm_side(jvm: Any, name: str) -> Any:
    """A class of Cleancut's in the JVM of a session, or an object in Scala.

    Args:
        jvm: as py4j gives it.
        name: with its packages.

    Raises:
        RequestError: CLEANCUT_JAR_NOT_LOADED.
    """
    from py4j.java_gateway import JavaPackage

    found = jvm
    for part in name.split("."):
        found = getattr(found, part)
    if isinstance(found, JavaPackage):
        raise error_of("CLEANCUT_JAR_NOT_LOADED")
    return found
