"""Attributes of a package that are imported at their first use (PEP 562)."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

_ROOT = "cleancut"


def lazy_attributes(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package.

    Args:
        package: its name.
        names: the attributes by the module that defines them, without the prefix `cleancut.`; the
            attributes of "" are modules of `cleancut`.
    """
    modules = {name: module for module, defined in names.items() for name in defined}

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = modules[name]
        value: object = (
            getattr(import_module(f"{_ROOT}.{module}"), name)
            if module
            else import_module(f"{_ROOT}.{name}")
        )
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return get, listed
