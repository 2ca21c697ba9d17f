"""Errors of refused calls."""

from collections.abc import Callable

import pytest

from cleancut.errors import CleancutError


def refusal(call: Callable[[], object]) -> CleancutError:
    """Returns the error of a call."""
    with pytest.raises(CleancutError) as raised:
        call()
    return raised.value
