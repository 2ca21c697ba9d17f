"""The rows of the table: features, and the tests that verify them on a Spark version."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.lines import (
    EVERYWHERE,
    JOINS_OF_FORMAT_3,
    JOINS_OF_FORMAT_4,
    REAL_TIME,
    ROWS_OF_PROCESSORS,
    STATE_FOR_SPARK,
    Ability,
)


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        what: the feature.
        tests: all tests of the feature: files and functions of pytest, with patterns for their
            parameters, and suites in Scala by their names.
        ability: the first Spark version that can have the feature.
    """

    what: str
    tests: Sequence[str]
    ability: Ability = EVERYWHERE


_OPERATORS = (
    "spark/test_operators.py::test_operator_gives_the_rows_and_the_state_of_the_built_in_provider"
)
_OUTER = ("*_outer", "left_semi")
_PROCESSORS = (
    "spark/test_transform_with_state.py"
    "::test_transform_with_state_gives_the_rows_of_the_built_in_provider"
)
_KILLED = "chaos/test_sigkill.py::test_every_operator_survives_the_kills_of_drivers_and_executors"
_ROLLBACK = "spark/test_rollback.py::test_a_query_is_rolled_back_continues_and_is_rolled_back_again"
_CLONE = "spark/test_clones.py::test_a_clone_continues_like_the_query"
_IN_PYTHON = (
    "spark/test_python_in_flight.py::test_a_worker_returns_rows_of_a_slow_key_when_it_is_cut"
)

_IN_LOOP = "spark/test_python_loop.py::test_functions_see_and_return_the_same_as_in_pysparks_loop"


def _of(test: str, *parameters: str) -> list[str]:
    return [f"{test}[{parameter}]" for parameter in parameters]


TABLE: dict[str, Sequence[Row]] = {
    "The state store": [
        Row("Spark's contract of a store", ["ProviderContractSuite", "ProviderModelSuite"]),
        Row(
            "The same as Spark's stores, operation by operation",
            ["DifferentialSuite", "FamiliesDifferentialSuite"],
        ),
        Row(
            "The jar fits Spark, class by class",
            ["spark/test_linkage.py::test_the_jar_for_this_spark_links"],
        ),
    ],
    "Operators through restarts, compared with Spark's RocksDB provider": [
        Row(
            "Aggregation",
            _of(
                _OPERATORS,
                "aggregation-complete",
                "aggregation-update",
                "aggregation-append",
                "aggregation-windows-update",
            ),
        ),
        Row("Session windows", _of(_OPERATORS, "session-windows", "session-windows-unloaded")),
        Row("Deduplication", _of(_OPERATORS, "deduplication", "deduplication-watermark")),
        Row("Deduplication within the watermark", _of(_OPERATORS, "deduplication-within-*")),
        Row("Inner joins", _of(_OPERATORS, "join-inner-no-bounds", "join-inner-bounds")),
        Row(
            "Outer and semi joins",
            _of(
                _OPERATORS,
                *(f"join-{how}-{by}" for how in _OUTER for by in ("bounds", "windows")),
            ),
        ),
        Row("Joins of state format 3", _of(_OPERATORS, "join-*-v3"), JOINS_OF_FORMAT_3),
        Row("Joins of state format 4", _of(_OPERATORS, "join-*-v4*"), JOINS_OF_FORMAT_4),
        Row("`flatMapGroupsWithState`", ["FlatMapGroupsWithStateSuite"]),
        Row("`applyInPandasWithState`", _of(_OPERATORS, "pandas-with-state")),
        Row("`transformWithState` in Scala", ["TransformWithStateSuite"]),
        Row("`transformWithStateInPandas`", _of(_PROCESSORS, "pandas-*")),
        Row(
            "`transformWithState` in PySpark, row by row",
            _of(_PROCESSORS, "rows-*"),
            ROWS_OF_PROCESSORS,
        ),
        Row("Limits, and several operators in one query", _of(_OPERATORS, "limit", "two-*")),
        Row("State versions with ids", _of(_OPERATORS, "aggregation-append-ids")),
        Row("Randomized queries with failures", ["DifferentialQueriesSuite"]),
    ],
    "Operators on a cluster whose drivers and executors are killed": [
        Row("Aggregation, session windows, deduplication", _of(_KILLED, "keyed")),
        Row("Inner, outer and semi joins", _of(_KILLED, "joins")),
        Row(
            "`applyInPandasWithState`, `transformWithStateInPandas`, limits, several operators",
            _of(_KILLED, "functions"),
        ),
        Row("Joins of state format 3", _of(_KILLED, "joins-v3"), JOINS_OF_FORMAT_3),
        Row("Joins of state format 4", _of(_KILLED, "joins-v4"), JOINS_OF_FORMAT_4),
        Row(
            "`transformWithState` in PySpark, row by row",
            _of(_KILLED, "processors"),
            ROWS_OF_PROCESSORS,
        ),
    ],
    "Cuts": [
        Row(
            "On files",
            [
                "spark/test_cuts_on_files.py"
                "::test_a_checkpoint_of_files_continues_with_cuts_that_python_reads",
            ],
        ),
        Row(
            "In a bucket on S3",
            [
                "spark/test_checkpoint_on_s3.py::test_cuts_have_the_state_that_spark_reads",
                "spark/test_finished_epochs.py::test_an_epoch_sealed_in_a_bucket_is_finished",
            ],
        ),
        Row(
            "In a bucket on S3, drivers and executors killed",
            [
                "chaos/test_demo_on_s3.py"
                "::test_the_demo_survives_kills_with_only_the_bucket"
                "[s3proxy]",
            ],
        ),
        Row(
            "In-flight rows of operators on the JVM",
            [
                "spark/test_rows_in_flight.py::test_a_query_cut_on_request_counts_each_row_once",
                "spark/test_rows_in_flight.py"
                "::test_in_flight_rows_are_replayed_by_the_next_run_without_input",
                "spark/test_chains_in_flight.py"
                "::test_chained_operators_leave_rows_in_flight_and_none_are_late[*]",
                "UnalignedCutsSuite",
            ],
        ),
        Row("Randomized queries with random cuts", ["UnalignedQueriesSuite"]),
        Row(
            "In-flight rows of `applyInPandasWithState` and `transformWithStateInPandas`",
            _of(_IN_PYTHON, "applyInPandasWithState-*", "transformWithStateInPandas-*"),
        ),
        Row(
            "In-flight rows of `transformWithState` in PySpark, row by row",
            _of(_IN_PYTHON, "transformWithState-*"),
            ROWS_OF_PROCESSORS,
        ),
        Row(
            "In-flight rows, drivers and executors killed",
            [
                "chaos/test_sigkill_in_flight.py"
                "::test_in_flight_rows_survive_kills_of_drivers_and_executors",
            ],
        ),
    ],
    "Operations on a checkpoint": [
        Row("`rollback`, and its undoing", _of(_ROLLBACK, "cuts", "level-0")),
        Row(
            "`rescale` in a bucket, on a cluster",
            [
                "spark/test_checkpoint_on_s3.py::test_a_query_in_a_bucket_is_rescaled_on_a_cluster",
            ],
        ),
        Row("`clone`", _of(_CLONE, "cuts to cuts", "level-0 to cuts", "cuts to level-0")),
        Row(
            "`clone` into a bucket and out again, on a cluster",
            [
                "spark/test_clones.py::test_a_query_is_cloned_into_a_bucket_and_back_on_a_cluster",
            ],
        ),
        Row(
            "`convert` from RocksDB's and the HDFS-backed provider",
            ["spark/test_offline.py::test_a_query_is_converted_and_continues_with_cuts"],
        ),
        Row(
            "`edit`",
            _of(
                "spark/test_edit.py::test_a_query_continues_with_the_edited_state",
                "cuts",
                "level-0",
            ),
        ),
        Row(
            "`migrate`",
            ["spark/test_migrate.py::test_operators_are_added_removed_and_kept"],
        ),
        Row(
            "Operations that write state for Spark's own providers",
            [
                "spark/test_offline.py::test_a_query_is_converted_there_and_back_and_rescaled",
                *_of(_ROLLBACK, "rocksdb"),
                *_of(_CLONE, "cuts to rocksdb"),
            ],
            STATE_FOR_SPARK,
        ),
    ],
    "Around it": [
        Row(
            "Spark Connect, with in-flight rows",
            [
                "spark/test_connect.py::test_a_client_runs_watches_and_changes_a_query",
                "spark/test_connect.py::test_a_server_killed_with_rows_in_flight_continues",
            ],
        ),
        Row(
            "State read without a JVM is what Spark reads",
            [
                "spark/test_checkpoint_reader.py"
                "::test_the_state_of_an_aggregation_is_what_spark_reads",
            ],
        ),
        Row(
            "Variables of `transformWithState` read by Spark from a checkpoint with cuts",
            _of(
                "spark/test_state_readers.py"
                "::test_families_of_a_checkpoint_with_cuts_are_those_of_one_without",
                "transform-*",
            ),
        ),
        Row(
            "Cleancut's loop over groups of pandas functions, compared with PySpark's",
            _of(_IN_LOOP, "frames-EventTime-7", "groups-EventTime-10000"),
        ),
        Row(
            "Cleancut's loop over groups of `transformWithState` in PySpark, row by row",
            _of(_IN_LOOP, "rows-EventTime-10000"),
            ROWS_OF_PROCESSORS,
        ),
        Row("Real-time mode with stateful operators", ["RealTimeModeSuite"], REAL_TIME),
    ],
}

ROWS: Sequence[Row] = [row for rows in TABLE.values() for row in rows]
