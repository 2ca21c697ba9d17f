"""Configures a Spark session for Cleancut's state store provider."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from cleancut._provider import PROVIDER_CLASS, PROVIDER_KEY
from cleancut._session.class_path import listed, loaded_from, running_jvm
from cleancut._session.installed import check_platform, check_pyspark, spark_jars
from cleancut._session.jars import jar_paths, strangers, without
from cleancut._session.running import (
    cannot_join,
    check_classic,
    provide,
    running_session,
)
from cleancut._session.settings import (
    EXTENSION_CLASS,
    EXTENSIONS_KEY,
    FILE_MANAGER_CLASS,
    FILE_MANAGER_KEY,
    NOT_GIVEN,
    REAL_TIME_KEY,
    Auto,
    ChangeFeed,
    Dialect,
    Mode,
    NotGiven,
    Settings,
    conf_problems,
    is_on,
)
from cleancut._session.user_conf import SUBMIT_ARGS, UserConf, user_conf
from cleancut.errors import error_of

if TYPE_CHECKING:
    # Whoever only reads checkpoints needs no PySpark.
    from pyspark.sql import SparkSession

_JARS_KEY = "spark.jars"


def configure(
    builder: "SparkSession.Builder",
    *,
    compression_level: int | NotGiven = NOT_GIVEN,
    acquire_timeout: str | timedelta | NotGiven = NOT_GIVEN,
    memory_bound: str | NotGiven = NOT_GIVEN,
    real_time_mode: bool | NotGiven = NOT_GIVEN,
    cuts: bool | Auto | NotGiven = NOT_GIVEN,
    dialect: Dialect | NotGiven = NOT_GIVEN,
    endpoint: str | NotGiven = NOT_GIVEN,
    path_style: bool | Auto | NotGiven = NOT_GIVEN,
    region: str | NotGiven = NOT_GIVEN,
    request_timeout: str | timedelta | NotGiven = NOT_GIVEN,
    require: bool | Auto | NotGiven = NOT_GIVEN,
    mode: Mode | NotGiven = NOT_GIVEN,
    alignment_timeout: str | timedelta | NotGiven = NOT_GIVEN,
    max_epoch_duration: str | timedelta | NotGiven = NOT_GIVEN,
    max_in_flight_bytes: str | NotGiven = NOT_GIVEN,
    split_groups: bool | NotGiven = NOT_GIVEN,
    change_feed: ChangeFeed | NotGiven = NOT_GIVEN,
    lazy_restore: bool | NotGiven = NOT_GIVEN,
    merged_aggregation: bool | NotGiven = NOT_GIVEN,
    local_bases: str | NotGiven = NOT_GIVEN,
    standby_replicas: int | NotGiven = NOT_GIVEN,
    retention: str | timedelta | NotGiven = NOT_GIVEN,
    state_partitions: int | NotGiven = NOT_GIVEN,
    trusted_scheme: str | NotGiven = NOT_GIVEN,
    encryption: str | NotGiven = NOT_GIVEN,
    requester_pays: bool | NotGiven = NOT_GIVEN,
    access_point: str | NotGiven = NOT_GIVEN,
    connections: int | NotGiven = NOT_GIVEN,
    check_compatible: bool | NotGiven = NOT_GIVEN,
    profile: str | NotGiven = NOT_GIVEN,
    history: str | timedelta | NotGiven = NOT_GIVEN,
    ui_epochs: int | NotGiven = NOT_GIVEN,
) -> "SparkSession.Builder":
    """Makes a session, one to be created or that runs, keep the state of new queries in Cleancut.

    What is not given stays as configured. Durations have a unit (h, m, s, ms), and sizes (k, m, g).

    Args:
        builder: a `SparkSession.builder` of classic Spark, last before its `getOrCreate`.
        compression_level: zstd level of what a commit writes, from -7 (fast) to 19 (small).
        acquire_timeout: how long a task waits for a store that another attempt of it still holds.
        memory_bound: memory outside the heap for all state of an executor; "auto" is half its heap.
        real_time_mode: whether the session may run queries in real-time mode.
        cuts: whether cuts commit epochs on a file system of Hadoop; True begins with them for good.
        dialect: whose rules an S3-compatible store follows: "aws", "r2", "generic" or "auto".
        endpoint: the URL of that store, or "auto", which is that of the environment or AWS.
        path_style: whether the bucket stands in the path of a request, or "auto".
        region: what requests are signed for, or "auto".
        request_timeout: how long a request to the object store is repeated before it fails.
        require: whether a query is refused whose state another provider keeps, or "auto".
        mode: "aligned" waits for a task that is late; "auto" and "unaligned" overtake it.
        alignment_timeout: how long "auto" waits for such a task.
        max_epoch_duration: after how long an epoch is cut as a whole; "0ms" is no limit.
        max_in_flight_bytes: the size of the rows that a channel of a partition keeps in flight.
        split_groups: whether a function may get the rows that a key has in an epoch in two.
        change_feed: whether the change feed shows the "last" change of a key in an epoch or "all".
        lazy_restore: whether a store is opened before its base has been read.
        merged_aggregation: whether groupBy merges the state of a group where it reads it.
        local_bases: how much local disk an executor uses to keep bases that it has fetched.
        standby_replicas: how many other executors keep a copy of each base, for a task that moves.
        retention: how long cuts are kept at least, besides those of the last epochs.
        state_partitions: a query that has another number of them is rescaled when it is started.
        trusted_scheme: the scheme of a file system whose rename you know to decide between writers.
        encryption: of new objects: "s3", "kms", "kms:<key>", "customer:<file>", "auto" and more.
        requester_pays: whether requests to an s3:// location say that this side pays for them.
        access_point: the ARN of an access point to ask in place of the bucket.
        connections: how many connections a process keeps to the store of an s3:// location.
        check_compatible: whether a query is refused at its start that cannot go on from there.
        profile: of the AWS configuration, whose credentials requests to that store have, or "auto".
        history: how long it is kept what epochs took; "0ms" keeps nothing.
        ui_epochs: how many epochs the tab "Cuts" of Spark's pages shows.

    Raises:
        TypeError: `builder` is not a builder.
        RequestError: with every problem that the options and the configuration have.
    """
    return _configured(**locals())


def _configured(builder: "SparkSession.Builder", **options: Any) -> "SparkSession.Builder":
    for key, value in _confs(builder, Settings(**options)).items():
        builder.config(key, value)
    return builder


def _confs(builder: "SparkSession.Builder", settings: Settings) -> dict[str, str]:
    """What the builder must be told, once it is sure that nothing stands against it."""
    options = getattr(builder, "_options", None)
    if not isinstance(options, dict):
        # Spark offers no public way to read what a builder holds.
        kind = type(builder).__name__
        raise TypeError(f"configure takes a SparkSession.builder, before getOrCreate, not a {kind}")
    check_pyspark()
    check_classic(builder, options)
    jvm, session = running_jvm(), running_session()
    java = None if jvm is None else jvm.java.lang.System.getProperty("java.specification.version")
    check_platform(java)
    conf, jars = user_conf(options, jvm, session), jar_paths()
    settings = _as_asked(settings, conf)
    problems = [*settings.problems(), *_conflicts(conf, settings), *_jar_problems(conf, jars)]
    problems += _class_path_problems(jvm, jars)
    if problems:
        raise error_of("CLEANCUT_CONF_INVALID", problems=" ".join(problems))
    confs = settings.confs()
    if session is not None and settings.real_time_mode is True:
        raise cannot_join("real_time_mode needs the extension from the start of the session", jars)
    if jvm is not None:
        provide(jvm, session, jars)
    if session is not None:
        # What else there is cannot be set in a session that runs, and it has it by now.
        return {key: value for key, value in confs.items() if key != EXTENSIONS_KEY}
    return confs | {
        _JARS_KEY: listed(_jars_with(conf, jars)),
        EXTENSIONS_KEY: ",".join(_extensions_with(conf)),
    }


def _as_asked(settings: Settings, conf: UserConf) -> Settings:
    """The settings with real-time mode as its key asks for it, unless the option was given.

    The key alone would have no effect: the provider's name, which is set without the option, makes
    Spark refuse real-time mode.
    """
    asked = conf.get(REAL_TIME_KEY)
    if settings.real_time_mode is not NOT_GIVEN or asked is None or not is_on(asked[0]):
        return settings
    return replace(settings, real_time_mode=True)


def _conflicts(conf: UserConf, settings: Settings) -> Iterator[str]:
    """One sentence for each thing that is configured and cannot stay."""
    given = settings.confs()
    yield from conf_problems({k: v for k, v in conf.merged().items() if k not in given})
    provider = conf.get(PROVIDER_KEY)
    if provider is not None and provider[0] != PROVIDER_CLASS:
        yield (
            f"{PROVIDER_KEY} is {provider[0]} in {provider[1]}: remove it there, "
            f"or do without Cleancut."
        )
    elif provider is not None and PROVIDER_KEY not in given:
        yield (
            f"{PROVIDER_KEY} is set in {provider[1]}, and Spark runs no query in real-time mode "
            f"then: remove it there."
        )
    for key in (FILE_MANAGER_KEY, f"spark.hadoop.{FILE_MANAGER_KEY}"):
        manager = conf.get(key)
        if manager is not None and manager[0] != FILE_MANAGER_CLASS:
            yield (
                f"{key} is {manager[0]} in {manager[1]}, and Cleancut has a file manager of its "
                f"own: remove it there."
            )


def _jar_problems(conf: UserConf, jars: Sequence[str]) -> Iterator[str]:
    for other in strangers(_jars(conf), jars):
        yield (
            f"{_JARS_KEY} has {other}, which is not a jar of this release for this Spark: "
            f"remove it."
        )
    submitted = conf.sources.get(SUBMIT_ARGS, {}).get(_JARS_KEY)
    if submitted is not None and (lacking := without(jars, submitted.split(","))):
        # spark-submit lets its own arguments win over what the builder says.
        missing = listed(lacking)
        yield f"{SUBMIT_ARGS} has jars, which take the place of {_JARS_KEY}: add {missing} to them."


def _class_path_problems(jvm: Any | None, jars: Sequence[str]) -> Iterator[str]:
    """What Spark's own jars, or the class path of a JVM that runs, have of another release."""
    of_spark = [str(path) for path in spark_jars().glob("cleancut-*.jar")]
    loaded = None if jvm is None else loaded_from(jvm)
    found = [*of_spark, *([] if loaded is None else [loaded])]
    for other in sorted({*strangers(found, jars)}):
        place = " and ".join(jars)
        yield f"{other} is on the class path, and not of this release: put {place} in its place."
    if of_spark and (lacking := without(jars, of_spark)) and not strangers(of_spark, jars):
        # Spark's own class loader has the one, and does not look for the other in spark.jars.
        has = ", ".join(of_spark)
        yield f"Of Cleancut, Spark's own jars have {has} alone: put {lacking[0]} beside it."


def _jars(conf: UserConf) -> list[str]:
    return _listed(conf, _JARS_KEY)


def _jars_with(conf: UserConf, jars: Sequence[str]) -> list[str]:
    others = _jars(conf)
    return [*others, *without(jars, others)]


def _extensions_with(conf: UserConf) -> list[str]:
    extensions = _listed(conf, EXTENSIONS_KEY)
    named = {extension.strip() for extension in extensions}
    return extensions if EXTENSION_CLASS in named else [*extensions, EXTENSION_CLASS]


def _listed(conf: UserConf, key: str) -> list[str]:
    configured = conf.get(key)
    return [] if configured is None else [part for part in configured[0].split(",") if part.strip()]
