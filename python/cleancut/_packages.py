"""Optional packages, which an extra of this package installs."""

import importlib
from typing import Any

from cleancut.errors import error_of


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
        raise error_of(
            "CLEANCUT_DEPENDENCY_MISSING", feature=feature, package=package, extra=extra
        ) from problem
