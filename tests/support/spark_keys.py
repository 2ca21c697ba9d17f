"""Every key `spark.sql.streaming.*` of Spark, and others that change how a query runs.

A key has values to test, or the reason why it cannot change what a query with state computes.
`tests/spark/test_spark_keys.py` runs queries under each value, and fails if Spark has a key that is
not here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

PREFIX = "spark.sql.streaming."


@dataclass(frozen=True)
class Case:
    """Settings under which queries run.

    Attributes:
        name: the name of the test.
        settings: the settings of the session.
        after: settings that change at the restart.
    """

    name: str
    settings: Mapping[str, str]
    after: Mapping[str, str]


_LOGS = "a log of Spark's file sink, which no store reads"
_ROCKSDB = "read by Spark's RocksDB provider alone"
_HDFS = "read by Spark's HDFS-backed provider alone"
_CONTINUOUS = "continuous processing has no stateful operators"
_REAL_TIME = "real-time mode is aligned; RealTimeModeSuite runs it"
_REPORTS = "a limit of what Spark reports"
_LAG = "reports of snapshots that Spark's own providers send"
_SOURCE = "of a source, before any operator"

# Below `spark.sql.streaming.`; not one of these can change behaviour.
REASONS = {
    "checkpoint.escapedPathCheck.enabled": "only compares the location with its escaped twin",
    "checkpointLocation": "only the default of a location that the tests give",
    "commitProtocolClass": _LOGS,
    "continuous.epochBacklogQueueSize": _CONTINUOUS,
    "continuous.executorPollIntervalMs": _CONTINUOUS,
    "continuous.executorQueueSize": _CONTINUOUS,
    "disabledV2MicroBatchReaders": _SOURCE,
    "disabledV2Writers": "of a sink, after all operators",
    "fileSink.log.cleanupDelay": _LOGS,
    "fileSink.log.compactInterval": _LOGS,
    "fileSink.log.deletion": _LOGS,
    "fileSource.cleaner.numThreads": "with cleanSource alone; test_rollback.py has it",
    "fileSource.log.cleanupDelay": "a delay before old files of the log are deleted",
    "fileSource.schema.forceNullable": _SOURCE,
    "fileStreamSink.ignoreMetadata": _LOGS,
    "flatMapGroupsWithState.skipEmittingInitialStateKeys": (
        "with an initial state alone, which is aligned; FlatMapGroupsWithStateSuite has it"
    ),
    "internal.stateStore.partitions": "Spark sets it when it changes the number of partitions",
    "kafka.useDeprecatedOffsetFetching": _SOURCE,
    "numRecentProgressUpdates": _REPORTS,
    "noDataProgressEventInterval": _REPORTS,
    "realTimeMode.allowlistCheck": _REAL_TIME,
    "realTimeMode.asyncProgressTrackingByDefault.enabled": _REAL_TIME,
    "realTimeMode.dangerouslyAllowCheckpointV1.enabled": _REAL_TIME,
    "realTimeMode.minBatchDuration": _REAL_TIME,
    "realTimeMode.transformWithState.ttlEvictionIntervalMs": _REAL_TIME,
    "schemaInference": _SOURCE,
    "stateStore.autoSnapshotRepair.enabled": _ROCKSDB,
    "stateStore.autoSnapshotRepair.maxChangeFileReplay": _ROCKSDB,
    "stateStore.autoSnapshotRepair.numFailuresBeforeActivating": _ROCKSDB,
    "stateStore.coordinatorReportSnapshotUploadLag": _LAG,
    "stateStore.fileChecksumThreadPoolSize": "threads of Spark's own file manager",
    "stateStore.forceSnapshotUploadOnLag": _LAG,
    "stateStore.maintenanceForceShutdownTimeout": "a limit when an executor ends",
    "stateStore.maintenanceShutdownTimeout": "a limit when an executor ends",
    "stateStore.maxLaggingStoresToReport": _LAG,
    "stateStore.maxNumStateSchemaFiles": "a limit that ends a query with many schemas",
    "stateStore.multiplierForMinTimeDiffToLog": _LAG,
    "stateStore.multiplierForMinVersionDiffToLog": _LAG,
    "stateStore.numStateStoreInstanceMetricsToReport": _REPORTS,
    "stateStore.providerClass": "the provider is what these tests compare",
    "stateStore.rocksdb.formatVersion": _ROCKSDB,
    "stateStore.rocksdb.mergeOperatorVersion": _ROCKSDB,
    "stateStore.rowChecksum.readVerificationRatio": _HDFS,
    "stateStore.snapshotLagReportInterval": _LAG,
    "stateStore.snapshotToCleanupThreadRatio": _ROCKSDB,
    "stateStore.valueStateSchemaEvolutionThreshold": "a limit that ends a query",
    "sessionWindow.stateFormatVersion": "1 is the only value",
    "streamingQueryListeners": "listeners, which Spark notifies of events",
    "transformWithState.stateSchemaVersion": "3 is the only value",
    "ui.enabled": _REPORTS,
    "ui.enabledCustomMetricList": _REPORTS,
    "ui.retainedProgressUpdates": _REPORTS,
    "ui.retainedQueries": _REPORTS,
}

# Below `spark.sql.streaming.`; no value is the default.
VALUES: dict[str, tuple[str, ...]] = {
    "aggregation.stateFormatVersion": ("1",),
    "asyncLogPurge.enabled": ("false",),
    "checkUnfinishedRepartitionOnRestart": ("false",),
    "checkpoint.fileChecksum.enabled": ("false",),
    "checkpoint.fileChecksum.skipCreationIfFileMissingChecksum": ("false",),
    "checkpoint.renamedFileCheck.enabled": ("true",),
    "checkpoint.verifyMetadataExists.enabled": ("false",),
    "fileSource.log.compactInterval": ("2",),
    "fileSource.log.deletion": ("false",),
    "flatMapGroupsWithState.stateFormatVersion": ("1",),
    "forceDeleteTempCheckpointLocation": ("true",),
    "join.stateFormatVersion": ("1", "3", "4"),
    "maxBatchesToRetainInMemory": ("0", "1"),
    "metadataCache.enabled": ("false",),
    "metricsEnabled": ("true",),
    "minBatchesToRetain": ("1", "2"),
    "multipleWatermarkPolicy": ("max",),
    "noDataMicroBatches.enabled": ("false",),
    "offsetLog.formatVersion": ("2",),
    "optimizeOneRowPlan.enabled": ("true",),
    "pollingDelay": ("1ms",),
    "queryEvolution.enableSinkEvolution": ("true",),
    "queryEvolution.enableSourceEvolution": ("true",),
    "ratioExtraSpaceAllowedInCheckpoint": ("0",),
    "sessionWindow.merge.sessions.in.local.partition": ("true",),
    "stateStore.checkpointFormatVersion": ("2",),
    "stateStore.commitValidation.enabled": ("false",),
    "stateStore.compression.codec": ("zstd",),
    "stateStore.encodingFormat": ("avro",),
    "stateStore.formatValidation.enabled": ("false",),
    "stateStore.maintenanceInterval": ("10ms",),
    "stateStore.maintenanceProcessingTimeout": ("1ms",),
    "stateStore.maxVersionsToDeletePerMaintenance": ("1",),
    "stateStore.minDeltasForSnapshot": ("1",),
    "stateStore.numStateStoreMaintenanceThreads": ("4",),
    "stateStore.rowChecksum.enabled": ("true",),
    "stateStore.skipNullsForStreamStreamJoins.enabled": ("true",),
    "stateStore.stateSchemaCheck": ("false",),
    "stateStore.unloadOnCommit": ("true",),
    "statefulOperator.allowMultiple": ("false",),
    "statefulOperator.alwaysNullableOutput.enabled": ("false",),
    "statefulOperator.checkCorrectness.enabled": ("false",),
    "statefulOperator.incrementalCleanupFactor": ("1",),
    "statefulOperator.useStrictDistribution": ("false",),
    "stopActiveRunOnRestart": ("false",),
    "stopTimeout": ("30s",),
    "triggerAvailableNowWrapper.enabled": ("true",),
    "unsupportedOperationCheck": ("false",),
    "useStreamlineAggregator": ("true",),
    "validateEventTimeWatermarkColumn": ("false",),
    "verifyCheckpointDirectoryEmptyOnStart": ("false",),
}

# Keys outside of `spark.sql.streaming.`, with full names.
OTHERS: dict[str, tuple[str, ...]] = {
    "spark.sql.adaptive.enabled": ("false",),
    "spark.sql.ansi.enabled": ("false",),
    "spark.sql.caseSensitive": ("true",),
    "spark.sql.codegen.wholeStage": ("true",),
    "spark.sql.execution.useObjectHashAggregateExec": ("false",),
    "spark.sql.requireAllClusterKeysForDistribution": ("true",),
    "spark.sql.session.timeZone": ("Asia/Kolkata",),
    "spark.sql.shuffle.partitions": ("1", "5"),
    "spark.sql.stateStore.skipNullsForStreamStreamJoins": ("true",),
}

# Keys of the application, so that each case needs a JVM.
APPLICATIONS: dict[str, dict[str, str]] = {
    "kryo with registration": {
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrationRequired": "true",
    },
    "encryption": {"spark.io.encryption.enabled": "true"},
    "speculation": {
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.4",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.interval": "20ms",
    },
    "decommissioning": {
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        "spark.storage.decommission.shuffleBlocks.enabled": "true",
        "spark.storage.decommission.rddBlocks.enabled": "true",
        "spark.dynamicAllocation.enabled": "true",
        # Executors with shuffle files are removed too; their files move.
        "spark.dynamicAllocation.shuffleTracking.enabled": "false",
        "spark.dynamicAllocation.executorIdleTimeout": "2s",
        "spark.dynamicAllocation.initialExecutors": "2",
        "spark.dynamicAllocation.minExecutors": "1",
        "spark.dynamicAllocation.maxExecutors": "2",
    },
    "no reuse of Python workers": {"spark.python.worker.reuse": "false"},
    "no compression of shuffles": {
        "spark.shuffle.compress": "false",
        "spark.shuffle.spill.compress": "false",
    },
}


def cases() -> Iterator[Case]:
    """Returns a case for each value of each key; one key changes at the restart."""
    whole = {PREFIX + key: values for key, values in VALUES.items()} | OTHERS
    for key, values in whole.items():
        for value in values:
            name = f"{key.removeprefix(PREFIX)}={value}"
            yield Case(name, {key: value}, {key: value})
    zone = "spark.sql.session.timeZone"
    yield Case("session.timeZone changes", {zone: "Asia/Kolkata"}, {zone: "America/St_Johns"})
