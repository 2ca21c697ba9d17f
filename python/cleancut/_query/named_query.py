"""A query that is given on the command line, as `module:function`."""

import importlib
import sys
import traceback
from typing import TYPE_CHECKING, Any

from cleancut.errors import CleancutError, error_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def named_query(name: str, session: "SparkSession", location: str) -> "DataFrame":
    """The result of a user's function of a session.

    Args:
        name: `module:function`; the module is searched in the working directory first.
        session: the argument of the function.
        location: location of the checkpoint, for errors.

    Raises:
        RequestError: CLEANCUT_OPERATION_REFUSED, the function does not exist, fails, or does not
            return a DataFrame. The failure of the user's code is printed.
    """
    from pyspark.sql import DataFrame

    def refused(reason: str) -> CleancutError:
        return error_of(
            "CLEANCUT_OPERATION_REFUSED",
            operation="check_compatibility",
            location=location,
            reason=f"the query {name} is not available, because {reason}",
        )

    module_name, colon, function_name = name.partition(":")
    if not (module_name and colon and function_name):
        raise refused("its name must have the form module:function")
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
        raise refused(f"the function returns {query!r} and no DataFrame")
    return query


def _failed(refused: Any, what: str, error: Exception) -> CleancutError:
    traceback.print_exception(error)
    error_of_query: CleancutError = refused(f"{what}: {type(error).__name__}: {error}".rstrip("."))
    return error_of_query
