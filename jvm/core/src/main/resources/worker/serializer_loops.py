"""Replaces the loops over groups of PySpark 4.0 to 4.2, which are parts of its serializers.

`load_stream` of a serializer cuts the input into groups, a function of `pyspark/worker.py` calls
the user's function for each, and `dump_stream` converts the results. All of them are replaced
together, if the source text of the serializer's classes and of the function is the expected one.
"""

import inspect

from . import loops_4_0, loops_4_1, loops_4_2
from .pyspark_code import closure, digest, report_unknown

SERIALIZERS = {
    "rows": "TransformWithStateInPySparkRowSerializer",
    "frames": "TransformWithStateInPandasSerializer",
    "groups": "ApplyInPandasWithStateSerializer",
}


def serializer_of(kind):
    """PySpark's class that has the loop of a kind of operator; None from Spark 4.3 on."""
    from pyspark.sql.pandas import serializers

    return getattr(serializers, SERIALIZERS[kind], None)


def replacing_loop(dump_stream):
    """The function that replaces `dump_stream` of the serializer.

    Args:
        dump_stream: PySpark's function.
    """

    def dump(serializer, results, stream):
        batches = _replaced(serializer, results)
        if batches is None:
            return dump_stream(serializer, results, stream)
        from pyspark.sql.pandas.serializers import ArrowStreamSerializer

        return ArrowStreamSerializer.dump_stream(serializer, _started(batches, stream), stream)

    return dump


def _replaced(serializer, results):
    """The record batches of the results; None if PySpark's loop is not the expected one."""
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer

    # PySpark's function maps its input, which has not been read.
    if type(results) is not map:
        return None
    _, (mapper, groups) = results.__reduce__()
    hashed = digest(_codes(serializer, mapper, groups))
    loop = LOOPS.get(hashed)
    if loop is None:
        report_unknown(type(serializer).__name__, hashed)
        return None
    stream = groups.gi_frame.f_locals["stream"]
    return loop(serializer, mapper, ArrowStreamSerializer.load_stream(serializer, stream))


def _codes(serializer, mapper, groups):
    """All that is replaced, and PySpark's code that the replacement calls."""
    function = closure(mapper)["f"]
    functions = [mapper, function, closure(function)["wrapped"]]
    for kind in type(serializer).__mro__:
        if kind.__module__ == type(serializer).__module__:
            members = (getattr(value, "__func__", value) for _, value in sorted(vars(kind).items()))
            # Methods that are wrapped for this call.
            members = (getattr(value, "plain", value) for value in members)
            functions += filter(inspect.isfunction, members)
    return [groups.gi_code, *(function.__code__ for function in functions)]


def _started(batches, stream):
    """Writes the begin of the results before the first batch, after it has been converted."""
    from pyspark.serializers import write_int
    from pyspark.sql.pandas.serializers import SpecialLengths

    is_started = False
    for batch in batches:
        if not is_started:
            write_int(SpecialLengths.START_ARROW_STREAM, stream)
            is_started = True
        yield batch


# By the hash of PySpark's source text, with the releases that have it.
LOOPS = {
    # 4.2.0 and 4.2.1
    "8ef4947b18786276": loops_4_2.transform_rows,
    "517d8b02e76c97d9": loops_4_2.transform_frames,
    "a2f17a1f2c39eeab": loops_4_2.transform_groups,
    # 4.1.0 to 4.1.4
    "56c803a9b61ee310": loops_4_1.transform_rows,
    # 4.1.0 and 4.1.1
    "01b86f57c6d6cce5": loops_4_1.transform_frames,
    "d29d1e3117de4e92": loops_4_1.transform_groups,
    # 4.1.2 to 4.1.4
    "f8f78bd66512ef28": loops_4_1.transform_frames,
    # 4.1.2 and 4.1.3
    "b5da03b08d02e15c": loops_4_1.transform_groups,
    # 4.1.4
    "19021c8c56109db7": loops_4_1.transform_groups,
    # 4.0.1 and 4.0.2
    "e7c49b82e89d1af9": loops_4_0.transform_frames,
    "bdc17a18d6ae8d6b": loops_4_0.transform_groups,
    # 4.0.3 to 4.0.5
    "fbcd65b839b476fd": loops_4_0.transform_frames,
    # 4.0.3 and 4.0.4
    "51f7a28782ed676f": loops_4_0.transform_groups,
    # 4.0.5
    "175c39b492525fb4": loops_4_0.transform_groups,
}
