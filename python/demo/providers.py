"""The state store providers that the job runs on, and the session for each."""

from typing import Any

from pyspark.sql import SparkSession

from demo.job import Job

_PROVIDER_KEY = "spark.sql.streaming.stateStore.providerClass"
_FILE_MANAGER_KEY = "spark.sql.streaming.checkpointFileManagerClass"
_STATE_PACKAGE = "org.apache.spark.sql.execution.streaming.state"
# Few, because each partition costs a file per store and epoch, and the demo runs on two cores.
_PARTITIONS = 4

CLEANCUT = "cleancut"
_BUILT_IN = {
    "rocksdb": {
        _PROVIDER_KEY: f"{_STATE_PACKAGE}.RocksDBStateStoreProvider",
        # Without it each epoch uploads complete files: its slow mode is no fair comparison.
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    },
    "hdfs": {_PROVIDER_KEY: f"{_STATE_PACKAGE}.HDFSBackedStateStoreProvider"},
}
PROVIDERS = (CLEANCUT, *_BUILT_IN)


def open_session(job: Job) -> SparkSession:
    """Starts the session that a job asks for.

    Raises:
        cleancut.errors.RequestError: Cleancut cannot run here; the message says why.
    """
    builder = SparkSession.Builder().master(job.master).appName("cleancut-demo")
    if job.provider == CLEANCUT:
        # Not at the top: Spark's own providers must run without a built jar.
        import cleancut

        builder = cleancut.configure(builder, **_options(job))
    for key, value in {**_common(job), **_BUILT_IN.get(job.provider, {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    return spark


def session_of(spark: SparkSession, provider: str) -> SparkSession:
    """Returns another session of a driver with this provider, next to Cleancut's."""
    session = spark.newSession()
    if provider in _BUILT_IN:
        session.conf.unset(_FILE_MANAGER_KEY)
        for key, value in _BUILT_IN[provider].items():
            session.conf.set(key, value)
    return session


def _options(job: Job) -> dict[str, Any]:
    """Returns the options of `cleancut.configure` that differ from its defaults."""
    options: dict[str, Any] = {} if job.endpoint is None else {"endpoint": job.endpoint}
    if job.has_rows_in_flight:
        # The rotations of an aircraft are built from flights that are sorted in each epoch.
        options |= {"mode": job.mode, "split_groups": False}
        # A bucket always has cuts.
        options |= {"cuts": True} if job.checkpoints is None else {}
    return options


def _common(job: Job) -> dict[str, str]:
    return {
        "spark.sql.shuffle.partitions": str(_PARTITIONS),
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(job.scratch / "local"),
        # Executors run on this machine, whose own name need not resolve.
        "spark.driver.host": "127.0.0.1",
        # Otherwise the tasks of one query wait until the other's are done.
        "spark.scheduler.mode": "FAIR",
    }
