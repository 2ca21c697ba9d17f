"""What is refused."""

from collections.abc import Callable

import pytest

from cleancut.errors import CleancutError


def refusal(call: Callable[[], object]) -> CleancutError:
    """The error that a call ends with."""
    with pytest.raises(CleancutError) as raised:
        call()
    return raised.value
