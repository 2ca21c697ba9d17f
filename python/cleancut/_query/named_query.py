"""A query that a command line names, as `module:function`."""

import importlib
import sys
import traceback
from typing import TYPE_CHECKING, Any

from cleancut.errors import CleancutError, error_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def named_query(name: str, session: "SparkSession", location: str) -> "DataFrame":
    """What a function of the user's makes of a session.

    Args:
        name: `module:function`; the module is looked for in the working directory first.
        session: what the function takes.
        location: of the checkpoint, for errors.

    Raises:
        RequestError: CLEANCUT_OPERATION_REFUSED, there is no such function, it fails, or it gives
            no DataFrame. Why the user's own code has failed is printed.
    """
    from pyspark.sql import DataFrame

    def refused(reason: str) -> CleancutError:
        return error_of(
            "CLEANCUT_OPERATION_REFUSED",
            operation="check_compatibility",
            location=location,
            reason=f"the query {name} cannot be asked for, because {reason}",
        )

    module_name, colon, function_name = name.partition(":")
    if not (module_name and colon and function_name):
        raise refused("it is to be named as module:function")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise refused(str(error)) from error
    except Exception as error:
        raise _failed(refused, f"{module_name} cannot be imported", error) from error
    function: Any = getattr(module, function_name, None)
    if not callable(function):
        raise refused(f"{module_name} has no function {function_name}")
    try:
        query = function(session)
    except CleancutError:
        raise
    except Exception as error:
        raise _failed(refused, "the function has failed", error) from error
    if not isinstance(query, DataFrame):
        raise refused(f"the function gives {query!r} and no DataFrame")
    return query


def _failed(refused: Any, what: str, error: Exception) -> CleancutError:
    traceback.print_exception(error)
    found: CleancutError = refused(f"{what}: {type(error).__name__}: {error}".rstrip("."))
    return found
