"""Commands that repeat a pass, and continue after errors that pass by themselves."""

import sys
import time
from collections.abc import Callable

from cleancut._cli.parsers import unavailable
from cleancut._cli.statuses import OK
from cleancut.errors import RetryableError

# The system's messages for a missing location, which no later pass resolves.
_PERMANENT = (FileNotFoundError, NotADirectoryError, PermissionError)


def repeat(command: str, one_pass: Callable[[], None], every_s: float | None) -> int:
    """Runs a pass once, or repeatedly until an error that a later pass cannot resolve.

    Args:
        command: the command that runs it, for errors.
        one_pass: what to run.
        every_s: seconds between the end of a pass and the next one; None runs it once.

    Returns:
        The exit status.

    Raises:
        Exception: of the pass; if it is repeated, none that is transient.
    """
    while True:
        try:
            one_pass()
        except (RetryableError, OSError) as failure:
            if every_s is None or isinstance(failure, _PERMANENT):
                raise
            error = unavailable(command, failure) if isinstance(failure, OSError) else failure
            print(f"The next pass begins in {every_s:g} s. {error}", file=sys.stderr)
        if every_s is None:
            return OK
        sys.stdout.flush()
        time.sleep(every_s)
