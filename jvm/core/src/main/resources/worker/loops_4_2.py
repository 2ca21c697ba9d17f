"""The loops over groups of PySpark 4.2, with its conversions.

Its messages for the state are those of 4.3, so many keys share a message.
"""

from .group_loop import RowGroups, batched_results, row_results
from .loops_4_3 import is_flat
from .pyspark_code import closure, nested


def transform_rows(serializer, mapper, batches):
    """Replaces the loop of `transformWithState`.

    Args:
        serializer: PySpark's serializer of the task.
        mapper: PySpark's function that calls the user's function for a group.
        batches: record batches of the input.
    """
    variables = closure(mapper)
    loop = {"data": batches, "key_offsets": serializer.key_offsets}
    results = row_results(closure(variables["f"])["return_type"])
    return results.batches(_results(variables, lambda lookahead: RowGroups(loop, lookahead)))


def transform_frames(serializer, mapper, batches):
    """Replaces the loop of `transformWithStateInPandas`. Parameters as above."""
    import pandas as pd
    from pyspark.sql.pandas.serializers import ArrowStreamPandasUDFSerializer

    from .group_frames import FrameGroups, FrameResults

    variables = closure(mapper)
    return_type = closure(variables["f"])["return_type"]
    create_batch = nested(
        ArrowStreamPandasUDFSerializer.dump_stream, "create_batch", self=serializer, pd=pd
    )
    loop = {
        "batches": batches,
        "key_offsets": serializer.key_offsets,
        "value_offsets": variables["parsed_offsets"][0][1],
        "arrow_max_records_per_batch": serializer.arrow_max_records_per_batch,
        "arrow_max_bytes_per_batch": serializer.arrow_max_bytes_per_batch,
        "to_pandas": to_pandas(serializer),
        "convert": lambda frame: create_batch(((frame, return_type),)),
        "is_flat": is_flat(return_type),
    }
    groups = _results(variables, lambda lookahead: FrameGroups(loop, lookahead))
    return FrameResults(loop).batches(groups)


def transform_groups(serializer, mapper, batches):
    """Replaces the loop of `applyInPandasWithState`. Parameters as above."""
    from .group_frames import with_state

    return_type = closure(closure(mapper)["f"])["return_type"]
    return with_state(
        group_variables(serializer, mapper, batches)
        | {"return_type": return_type, "to_pandas": to_pandas(serializer)}
    )


def _results(variables, groups):
    client, function = variables["stateful_processor_api_client"], user_function(variables)
    return batched_results(client, function, groups)


def user_function(variables):
    """The function that PySpark calls, which returns the results without their type.

    Args:
        variables: those of the mapper.
    """
    return closure(variables["f"])["wrapped"]


def group_variables(serializer, mapper, batches):
    """The variables of `with_state`, without conversions and the type of results.

    Args:
        serializer: as above.
        mapper: as above.
        batches: as above.
    """
    import pandas as pd
    import pyarrow as pa

    variables = closure(mapper)
    wrapped = closure(variables["f"])["wrapped"]
    return_type = closure(wrapped)["return_type"]
    return {
        "data": batches,
        "key_offsets": variables["parsed_offsets"][0][0],
        "value_offsets": variables["parsed_offsets"][0][1],
        "arrow_max_records_per_batch": serializer.arrow_max_records_per_batch,
        "apply_udf_to_group": lambda keys, values, state: wrapped(keys, values, state)[0],
        "function": closure(wrapped)["f"],
        "verify_element": nested(wrapped, "verify_element", return_type=return_type, pd=pd),
        "state_schema": serializer.state_object_schema,
        "construct_record_batch": nested(
            type(serializer).dump_stream, "construct_record_batch", self=serializer, pd=pd, pa=pa
        ),
        "pickler": serializer.pickleSer,
    }


def to_pandas(serializer):
    """The conversion of a record batch to a list of columns.

    Args:
        serializer: as above.
    """
    from pyspark.sql.conversion import ArrowBatchTransformer

    def convert(batch):
        return ArrowBatchTransformer.to_pandas(
            batch,
            timezone=serializer._timezone,
            schema=serializer._input_type,
            struct_in_pandas=serializer._struct_in_pandas,
            ndarray_as_list=serializer._ndarray_as_list,
            prefer_int_ext_dtype=serializer._prefer_int_ext_dtype,
            df_for_struct=serializer._df_for_struct,
        )

    return convert
