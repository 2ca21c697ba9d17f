"""Verdicts on the SQLSTATE codes that drivers of several databases report."""

import re

_CODE = re.compile("[0-9A-Z]{5}")
# Conflicts that a repetition of the transaction resolves: serialization failures, deadlocks, lock
# timeouts, and statements that a timeout has canceled.
_AGAIN = frozenset({"40001", "40P01", "55P03", "57014"})
# Temporary states: the connection is lost; the server shuts down or starts; it is a standby during
# a failover; it has no connection, memory or disk left, does not accept connections, or cannot read
# a file.
_LOST_CLASSES = ("08", "57P")
_LOST = frozenset(
    {"25006", "53000", "53100", "53200", "53300", "55000", "58000", "58030", "HYT00", "HYT01"}
)


def sqlstate_verdict(state: str | None) -> str | None:
    """The verdict on an SQLSTATE, as `Reached.verdict`; None for any other state."""
    if state is None:
        return None
    if state in _AGAIN:
        return "again"
    return "lost" if state in _LOST or state.startswith(_LOST_CLASSES) else None


def sqlstate_of(failure: object) -> str | None:
    """The SQLSTATE of a driver's exception; None if it has none."""
    first = next(iter(getattr(failure, "args", ())), None)
    for code in (getattr(failure, "sqlstate", None), getattr(failure, "pgcode", None), first):
        if isinstance(code, str) and _CODE.fullmatch(code):
            return code
    return None
