"""What belongs to Spark Connect, whose client has no JVM of the driver."""

from cleancut.errors import error_of


def require_classic(given: object, what: str) -> None:
    """Refuses an object of Spark Connect.

    Args:
        given: a DataFrame, a session, or a query.
        what: what to call it.

    Raises:
        RequestError: CLEANCUT_CONNECT_UNSUPPORTED.
    """
    if ".connect." in f"{type(given).__module__}.":
        detail = f"the {what} is one of Spark Connect"
        raise error_of("CLEANCUT_CONNECT_UNSUPPORTED", detail=detail)
