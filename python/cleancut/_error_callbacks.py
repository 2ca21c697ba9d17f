"""The exceptions that `foreachBatch` functions have raised in this process, as objects.

py4j passes only the text of a traceback to the JVM; PySpark stores the exception in the function's
wrapper. A failure is matched to its exception by text: a message of Cleancut has all its values.
"""

import traceback
from collections.abc import Iterator


def raised_in_callbacks(text: str) -> Iterator[BaseException]:
    """The exceptions of `foreachBatch` functions whose traceback is in a text."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    pool = getattr(getattr(gateway, "gateway_property", None), "pool", None)
    # A copy, because queries start and end concurrently; objects under other names than those of
    # PySpark's functions have no such error.
    for function in [] if pool is None else list(pool.dict.values()):
        error = getattr(function, "error", None)
        if isinstance(error, BaseException) and _last_lines(error) in text:
            yield error


def _last_lines(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()
