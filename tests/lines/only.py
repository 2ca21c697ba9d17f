"""A plugin, `pytest -p tests.lines.only`: selects the tests of the table in its files."""

import pytest

from tests.lines.record import wanted


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects the other tests."""
    kept = [item for item in items if wanted(item.nodeid.removeprefix("tests/"))]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
