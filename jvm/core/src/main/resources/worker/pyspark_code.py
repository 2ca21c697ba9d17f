"""Reads the variables, the nested functions and the source text of PySpark's functions."""

import hashlib
import inspect
import logging
import types


def closure(function):
    """The variables of its enclosing function that a function uses."""
    return inspect.getclosurevars(function).nonlocals


def nested(function, name, **variables):
    """A function that PySpark defines in the body of another one.

    Args:
        function: the other one.
        name: name of the function.
        variables: variables of the other one that the function uses, or more.
    """
    code = next(c for c in function.__code__.co_consts if getattr(c, "co_name", None) == name)
    cells = tuple(types.CellType(variables[variable]) for variable in code.co_freevars)
    return types.FunctionType(code, function.__globals__, name, None, cells)


def digest(codes):
    """The hash of the source text of code objects."""
    return hashlib.sha256("".join(map(_source, codes)).encode()).hexdigest()[:16]


_sources = {}


def _source(code):
    if code not in _sources:
        try:
            _sources[code] = inspect.getsource(code)
        except (OSError, TypeError):
            _sources[code] = ""
    return _sources[code]


_reported = set()


def report_unknown(name, hashed):
    """Logs once that a loop of PySpark is not replaced.

    Args:
        name: name of the loop.
        hashed: its `digest`.
    """
    if hashed not in _reported:
        _reported.add(hashed)
        logging.getLogger("cleancut").warning(
            "PySpark's loop over groups (%s, %s) is not the expected one, so it runs unchanged. "
            "Results are the same; Python state is slower.",
            name,
            hashed,
        )
