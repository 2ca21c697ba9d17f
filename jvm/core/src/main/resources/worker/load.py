"""Loads the function of a stateful operator in PySpark's worker, and wraps what the worker calls.

The worker reads its input with `load_stream` and writes its results with `dump_stream` of PySpark's
serializer. Both are replaced for one call, because other operators may share the worker.
"""

import pickle

from .recall import Recall


def load(command, kind, is_accelerated):
    """Returns the function and return type of an operator's command.

    Args:
        command: PySpark's pickle of both.
        kind: `groups` for `applyInPandasWithState`; `frames` or `rows` for `transformWithState`.
        is_accelerated: whether PySpark's loop over groups is replaced.
    """
    from pyspark.core.broadcast import Broadcast
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer

    loaded = pickle.loads(command)
    if isinstance(loaded, Broadcast):
        loaded = pickle.loads(loaded.value)
    function, returned = loaded
    recall = Recall(function, kind)
    _wrap_once(ArrowStreamSerializer, "load_stream", lambda plain: _over(plain, recall))
    if is_accelerated:
        from .serializer_loops import replacing_loop, serializer_of

        serializer = serializer_of(kind)
        replacing = _replacing_loop if serializer is None else replacing_loop
        _wrap_once(serializer or ArrowStreamSerializer, "dump_stream", replacing)
    # A separate function, because PySpark's profilers read its code.
    if kind == "groups":
        return lambda key, values, state: recall.with_state(key, values, state), returned
    return lambda client, mode, key, values: recall.transform(client, mode, key, values), returned


def _wrap_once(serializer, name, wrap):
    method = getattr(serializer, name)
    plain = getattr(method, "plain", method)
    wrapped = wrap(plain)

    def called_once(*args):
        setattr(serializer, name, plain)
        return wrapped(*args)

    called_once.plain = plain
    setattr(serializer, name, called_once)


def _over(load_stream, recall):
    return lambda serializer, stream: recall.over(load_stream(serializer, stream))


def _replacing_loop(dump_stream):
    def dump(serializer, results, stream):
        from .group_loop import replace

        return dump_stream(serializer, replace(results), stream)

    return dump
