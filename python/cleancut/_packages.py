"""Packages of an extra, which are there only for who has asked for them."""

import importlib
from typing import Any

from cleancut.errors import error_of


def extra_package(module: str, *, feature: str, package: str, extra: str) -> Any:
    """A module of a package that is not a dependency of every user.

    Args:
        module: its name, with its packages.
        feature: what needs it.
        package: as it is installed.
        extra: of this package, which brings it.

    Raises:
        RequestError: CLEANCUT_DEPENDENCY_MISSING.
    """
    try:
        # What was imported of a package is found even where the package itself is not any more.
        importlib.import_module(module.partition(".")[0])
        return importlib.import_module(module)
    except ModuleNotFoundError as problem:
        raise error_of(
            "CLEANCUT_DEPENDENCY_MISSING", feature=feature, package=package, extra=extra
        ) from problem
