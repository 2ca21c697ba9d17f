"""A user's script that imports each public name; mypy checks it in strict mode."""

# ruff: noqa: F401
# isort: skip_file

import ast
from importlib import import_module
from pathlib import Path

import pytest

from cleancut import (
    Channel,
    Checkpoint,
    CleancutError,
    CorruptedError,
    Dataflow,
    ErrorKind,
    FencedError,
    InternalError,
    RequestError,
    RetryableError,
    __version__,
    bootstrap,
    check_compatibility,
    clone,
    configure,
    convert,
    coordinator,
    dataflow,
    edit,
    errors,
    in_sequence,
    jar_paths,
    migrate,
    rescale,
    rollback,
    seal,
    serve_metrics,
    sinks,
    stop,
    successor,
    testing,
    types,
)
from cleancut.dataflow import (
    Channel as Channel_dataflow,
    ChannelChange,
    ChannelReader,
    Dataflow as Dataflow_dataflow,
    DataflowCut,
    DataflowEdge,
    DataflowExpiry,
    DataflowInFlight,
    DataflowMember,
    DataflowPlan,
    DataflowProblem,
    DataflowReport,
    DataflowRun,
    DataflowStatus,
    MemberAge,
    MemberChange,
    Participant,
    iterate,
)
from cleancut.errors import (
    CleancutError as CleancutError_errors,
    CorruptedError as CorruptedError_errors,
    ErrorKind as ErrorKind_errors,
    FencedError as FencedError_errors,
    InternalError as InternalError_errors,
    RequestError as RequestError_errors,
    RetryableError as RetryableError_errors,
    find_error,
    from_java,
)
from cleancut.sinks import (
    Batch,
    Committer,
    DeltaSink,
    EpochFiles,
    EpochSink,
    FanOut,
    IcebergSink,
    KafkaSink,
    Ledger,
    LedgerEpoch,
    OpenEpoch,
    PostgresLedger,
    PostgresSink,
    PublishedEpoch,
    RedisSink,
    SqlLedger,
    SqlSink,
    Transaction,
    TwoPhaseSink,
    exactly_once,
    fan_out,
    sealed,
    transformed,
)
from cleancut.testing import (
    Block,
    EpochRows,
    RowComparison,
    SinkContract,
    SkewedInput,
    assert_same_rows,
    compare_rows,
    last_rows,
    slow,
)
from cleancut.types import (
    ChainInfo,
    Compatibility,
    Coordinator,
    CoordinatorStatus,
    Costs,
    CutDetails,
    CutInfo,
    DailyCost,
    DailyCosts,
    DiffInfo,
    Difference,
    EpochHistory,
    EpochInfo,
    EpochProgress,
    Expiry,
    FamilyInfo,
    FrameInfo,
    FrameLocation,
    InFlight,
    InfoList,
    LiveView,
    MetricsServer,
    OperatorCut,
    OperatorPlan,
    OwnerInfo,
    Pace,
    PartitionSize,
    Plan,
    PriceList,
    Problem,
    ReplicaInfo,
    ReplicaStatus,
    RequestCount,
    RequestsByKind,
    RestoreTest,
    RestoreTestStatus,
    RetainedCut,
    SavepointInfo,
    ShuffleInputInfo,
    SkewInfo,
    SlowEpoch,
    StageInfo,
    StoreCutInfo,
    StoreInfo,
    StoreTime,
    Successor,
    Usage,
    VerifyReport,
)

MODULES = ["cleancut", "cleancut.dataflow", "cleancut.errors", "cleancut.sinks", "cleancut.testing"]


@pytest.mark.parametrize("module", [*MODULES, "cleancut.types"])
def test_every_public_name_is_imported_here(module: str) -> None:
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    imported = {
        alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module == module
        for alias in node.names
    }
    assert imported == set(import_module(module).__all__)
