"""A query that is given on the command line, as `module:function`."""

import importlib
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cleancut.errors import CleancutError, error_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


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

    query: DataFrame = _Named(name, location, "check_compatibility").call(session, DataFrame)
    return query


def named_writer(name: str, session: "SparkSession", location: str) -> "DataStreamWriter":
    """The query that a user's function of a session builds and does not start.

    Args:
        name: `module:function`; the module is searched in the working directory first.
        session: the argument of the function.
        location: location of the checkpoint, for errors.

    Raises:
        RequestError: as `named_query`, for a function that does not return a DataStreamWriter.
    """
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    writer: DataStreamWriter = _Named(name, location, "successor").call(session, DataStreamWriter)
    return writer


@dataclass(frozen=True)
class _Named:
    """A function of a user, with the values for errors."""

    name: str
    location: str
    operation: str

    def call(self, session: Any, kind: type) -> Any:
        """Calls it; a result of another type is refused."""
        function = self._function()
        try:
            result = function(session)
        except CleancutError:
            raise
        except Exception as error:
            raise self._failed("the function has failed", error) from error
        if not isinstance(result, kind):
            raise self._refused(f"the function returns {result!r} and no {kind.__name__}")
        return result

    def _function(self) -> Callable[[Any], Any]:
        module_name, colon, function_name = self.name.partition(":")
        if not (module_name and colon and function_name):
            raise self._refused("its name must have the form module:function")
        if "" not in sys.path:
            sys.path.insert(0, "")
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            raise self._refused(str(error)) from error
        except Exception as error:
            raise self._failed(f"{module_name} cannot be imported", error) from error
        function: Any = getattr(module, function_name, None)
        if not callable(function):
            raise self._refused(f"{module_name} has no function {function_name}")
        return function  # type: ignore[no-any-return]

    def _failed(self, what: str, error: Exception) -> CleancutError:
        traceback.print_exception(error)
        return self._refused(f"{what}: {type(error).__name__}: {error}".rstrip("."))

    def _refused(self, reason: str) -> CleancutError:
        return error_of(
            "CLEANCUT_OPERATION_REFUSED",
            operation=self.operation,
            location=self.location,
            reason=f"the query {self.name} is not available, because {reason}",
        )
