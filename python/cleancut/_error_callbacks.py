"""What functions of `foreachBatch` have raised in this process, as the objects that they raised.

py4j hands the JVM the text of a traceback and nothing else; PySpark keeps the exception beside the
function. Whose text a failure has, its exception it is: a message of Cleancut tells all its facts.
"""

import traceback
from collections.abc import Iterator


def raised_in_callbacks(text: str) -> Iterator[BaseException]:
    """The exceptions of functions of `foreachBatch` whose traceback is in a text."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    pool = getattr(getattr(gateway, "gateway_property", None), "pool", None)
    # A copy, because queries start and end while this one looks; objects below other names than
    # those of PySpark's functions have no such error.
    for function in [] if pool is None else list(pool.dict.values()):
        error = getattr(function, "error", None)
        if isinstance(error, BaseException) and _last_lines(error) in text:
            yield error


def _last_lines(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()
