"""Access to the JVM of a driver, and the detection of Spark Connect clients."""

from typing import Any

from cleancut.errors import error_of


def is_connect(given: object) -> bool:
    """Whether a DataFrame, a session, or a query belongs to Spark Connect."""
    return ".connect." in f"{type(given).__module__}."


def require_classic(given: object, what: str) -> None:
    """Refuses an object of Spark Connect.

    Args:
        given: a DataFrame, a session, or a query.
        what: name of the object, for the error.

    Raises:
        RequestError: CLEANCUT_CONNECT_UNSUPPORTED.
    """
    if is_connect(given):
        detail = f"the {what} is one of Spark Connect"
        raise error_of("CLEANCUT_CONNECT_UNSUPPORTED", detail=detail)


def jvm_side(jvm: Any, name: str) -> Any:
    """A class of Cleancut in the JVM of a session, or a Scala object.

    Args:
        jvm: the JVM of py4j.
        name: the full class name.

    Raises:
        RequestError: CLEANCUT_JAR_NOT_LOADED.
    """
    from py4j.java_gateway import JavaPackage

    member = jvm
    for part in name.split("."):
        member = getattr(member, part)
    if isinstance(member, JavaPackage):
        raise error_of("CLEANCUT_JAR_NOT_LOADED")
    return member
