"""Optional packages, which an extra of this package installs."""

import importlib
from typing import Any

from cleancut._version import __version__
from cleancut.errors import CleancutError, error_of

# The file that `make wheel` and a release build; no index of packages has it yet.
WHEEL = f"cleancut-{__version__}-py3-none-any.whl"


def extra_package(module: str, *, feature: str, package: str, extra: str) -> Any:
    """Imports a module of an optional package.

    Args:
        module: full name of the module.
        feature: the feature that requires it.
        package: name of the package.
        extra: extra of this package that installs it.

    Raises:
        RequestError: CLEANCUT_DEPENDENCY_MISSING.
    """
    try:
        # Imported modules are found even if the package is uninstalled.
        importlib.import_module(module.partition(".")[0])
        return importlib.import_module(module)
    except ModuleNotFoundError as problem:
        raise missing_package(feature, package, extra) from problem


def missing_package(feature: str, package: str, extra: str) -> CleancutError:
    """The error for a feature whose optional package is not installed."""
    return error_of(
        "CLEANCUT_DEPENDENCY_MISSING",
        feature=feature,
        package=package,
        extra=extra,
        wheel=WHEEL,
    )
