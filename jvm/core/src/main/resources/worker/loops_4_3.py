"""Conversions of PySpark 4.3, with the arguments of its loops."""

from .pyspark_code import closure


def frame_conversions(loop):
    """The conversions of `transformWithStateInPandas`, for `FrameGroups` and `FrameResults`.

    Args:
        loop: variables of PySpark's generator.
    """
    import pandas as pd
    from pyspark.errors import PySparkValueError
    from pyspark.sql.conversion import ArrowBatchTransformer, PandasToArrowConversion
    from pyspark.sql.types import StructType

    conf, return_type = loop["runner_conf"], loop["return_type"]

    def to_pandas(batch):
        return ArrowBatchTransformer.to_pandas(
            batch, timezone=conf.timezone, prefer_int_ext_dtype=conf.prefer_int_ext_dtype
        )

    def convert(frame):
        if isinstance(return_type, StructType) and not isinstance(frame, pd.DataFrame):
            raise PySparkValueError(
                "Invalid return type. Please make sure that the UDF returns a "
                "pandas.DataFrame when the specified return type is StructType."
            )
        return PandasToArrowConversion.convert(
            [frame],
            loop["output_schema"],
            timezone=conf.timezone,
            safecheck=conf.safecheck,
            arrow_cast=True,
            assign_cols_by_name=conf.assign_cols_by_name,
            int_to_decimal_coercion_enabled=conf.int_to_decimal_coercion_enabled,
        )

    return {"to_pandas": to_pandas, "convert": convert, "is_flat": is_flat(return_type)}


def is_flat(return_type):
    """Whether results are rows without arrays, structs and maps.

    Args:
        return_type: Spark's type of results.
    """
    from pyspark.sql.types import StructType

    nested = ("fields", "elementType", "keyType")
    return isinstance(return_type, StructType) and not any(
        hasattr(field.dataType, name) for field in return_type for name in nested
    )


def group_variables(loop):
    """What `with_state` requires in addition to the variables of PySpark's generator.

    Args:
        loop: as above.
    """
    groups, apply = closure(loop["gen_data_and_state"]), closure(loop["apply_udf_to_group"])
    return {
        "to_pandas": groups["to_pandas"],
        "state_schema": closure(groups["construct_state"])["state_object_schema"],
        "function": apply["f"],
        "verify_element": apply["verify_element"],
        "pickler": closure(loop["construct_state_pdf"])["pickle_ser"],
    }
