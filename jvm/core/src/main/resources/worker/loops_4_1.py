"""The loops over groups of PySpark 4.1, whose serializers convert columns.

The state is read and written by PySpark's own client. Parameters are those of `loops_4_2.py`.
"""

from .group_loop import NoLookahead, RowGroups, RowResults, results_of
from .loops_4_2 import group_variables, user_function
from .pyspark_code import closure


def transform_rows(serializer, mapper, batches):
    """Replaces the loop of `transformWithState`."""
    variables = closure(mapper)
    groups = RowGroups({"data": batches, "key_offsets": serializer.key_offsets}, NoLookahead())
    return RowResults(result_type(mapper), _wrap_struct).batches(_results(variables, groups))


def transform_frames(serializer, mapper, batches):
    """Replaces the loop of `transformWithStateInPandas`."""
    from .group_frames import FrameGroups, FrameResults

    variables = closure(mapper)
    loop = {
        "batches": batches,
        "key_offsets": serializer.key_offsets,
        "value_offsets": variables["parsed_offsets"][0][1],
        # This PySpark passes each row by itself if the limit is 0, which means no limit.
        "arrow_max_records_per_batch": max(1, serializer.arrow_max_records_per_batch),
        "arrow_max_bytes_per_batch": serializer.arrow_max_bytes_per_batch,
        "to_pandas": _to_pandas(serializer),
        **result_conversions(serializer, mapper),
    }
    groups = FrameGroups(loop, NoLookahead())
    return FrameResults(loop).batches(_results(variables, groups))


def transform_groups(serializer, mapper, batches):
    """Replaces the loop of `applyInPandasWithState`."""
    from .group_frames import with_state

    return with_state(
        group_variables(serializer, mapper, batches)
        | {"return_type": result_type(mapper), "to_pandas": _to_pandas(serializer)}
    )


def _results(variables, groups):
    client = variables["stateful_processor_api_client"]
    return results_of(client, user_function(variables), groups)


def result_type(mapper):
    """Arrow's type of the results."""
    return closure(closure(mapper)["f"])["arrow_return_type"]


def result_conversions(serializer, mapper):
    """The conversions for `FrameResults`."""
    import pyarrow as pa

    arrow_type = result_type(mapper)
    return {
        "convert": lambda frame: serializer._create_batch((frame, arrow_type)),
        "is_flat": not any(pa.types.is_nested(field.type) for field in arrow_type),
    }


def _to_pandas(serializer):
    import pyarrow as pa

    def convert(batch):
        # Columns of a table have names.
        columns = pa.Table.from_batches([batch]).itercolumns()
        return [serializer.arrow_to_pandas(column, i) for i, column in enumerate(columns)]

    return convert


def _wrap_struct(batch):
    """As in `dump_stream` of PySpark's `ArrowStreamUDFSerializer`."""
    import pyarrow as pa

    if batch.num_columns == 0:
        struct = pa.array([{}] * batch.num_rows)
    else:
        struct = pa.StructArray.from_arrays(batch.columns, fields=pa.struct(list(batch.schema)))
    return pa.RecordBatch.from_arrays([struct], ["_0"])
