"""Configures a Spark session for Cleancut's state store provider."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from cleancut._error_messages import show_errors_first
from cleancut._provider import PROVIDER_CLASS, PROVIDER_KEY
from cleancut._session.active_session import (
    cannot_join,
    check_classic,
    provide,
    running_session,
)
from cleancut._session.class_path import listed, loaded_from, running_jvm
from cleancut._session.installation import check_platform, check_pyspark, spark_jars
from cleancut._session.jars import jar_paths, strangers, without
from cleancut._session.options import OPTIONS, Options
from cleancut._session.settings import (
    EXTENSION_CLASS,
    EXTENSIONS_KEY,
    FILE_MANAGER_CLASS,
    FILE_MANAGER_KEY,
    REAL_TIME_KEY,
    checked_names,
    conf_problems,
    confs_of,
    is_on,
    problems_of,
)
from cleancut._session.user_conf import SUBMIT_ARGS, UserConf, user_conf
from cleancut.errors import error_of

if TYPE_CHECKING:
    # Users who only read checkpoints need no PySpark.
    from pyspark.sql import SparkSession

_JARS_KEY = "spark.jars"


def configure(
    builder: "SparkSession.Builder", **options: Unpack[Options]
) -> "SparkSession.Builder":
    """Configures a session, new or running, so that Cleancut stores the state of new queries.

    Options that are not given keep their configured values. Durations have a unit (h, m, s, ms),
    and sizes (k, m, g). In this process, PySpark's exceptions then begin with the error of Cleancut
    that caused them.

    Args:
        builder: a `SparkSession.builder` of classic Spark; call its `getOrCreate` afterwards.
        options: those of `Options`, by name.

    Raises:
        TypeError: `builder` is not a builder, or there is no option of this name.
        RequestError: the options and the configuration have problems; it lists all of them.
    """
    for key, value in _confs(builder, checked_names(options)).items():
        builder.config(key, value)
    show_errors_first()
    return builder


def _described() -> None:
    """Lists each option in `help(configure)`."""
    texts = [f"{option.name}: {option.text}" for option in OPTIONS]
    whole = "        options: those of `Options`, by name.\n"
    configure.__doc__ = str(configure.__doc__).replace(
        whole, "".join(f"        {text}\n" for text in texts)
    )
    builder = inspect.signature(configure).parameters["builder"]
    configure.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            builder,
            *(
                inspect.Parameter(
                    option.name, inspect.Parameter.KEYWORD_ONLY, default=..., annotation=option.type
                )
                for option in OPTIONS
            ),
        ],
        return_annotation="SparkSession.Builder",
    )


_described()


def _confs(builder: "SparkSession.Builder", options: Options) -> dict[str, str]:
    """The settings for the builder, after all checks have passed."""
    held = getattr(builder, "_options", None)
    if not isinstance(held, dict):
        # Spark has no public API for the options of a builder.
        kind = type(builder).__name__
        raise TypeError(f"configure takes a SparkSession.builder, before getOrCreate, not a {kind}")
    check_pyspark()
    check_classic(builder, held)
    jvm, session = running_jvm(), running_session()
    java = None if jvm is None else jvm.java.lang.System.getProperty("java.specification.version")
    check_platform(java)
    conf, jars = user_conf(held, jvm, session), jar_paths()
    options = _as_asked(options, conf)
    confs = confs_of(options)
    problems = [*problems_of(options), *_conflicts(conf, confs), *_jar_problems(conf, jars)]
    problems += _class_path_problems(jvm, jars)
    if problems:
        raise error_of("CLEANCUT_CONF_INVALID", problems=" ".join(problems))
    if session is not None and options.get("real_time_mode") is True:
        raise cannot_join("real_time_mode needs the extension from the start of the session", jars)
    if jvm is not None:
        provide(jvm, session, jars)
    if session is not None:
        # The other keys cannot be set in a running session, which has them already.
        return {key: value for key, value in confs.items() if key != EXTENSIONS_KEY}
    return confs | {
        _JARS_KEY: listed(_jars_with(conf, jars)),
        EXTENSIONS_KEY: ",".join(_extensions_with(conf)),
    }


def _as_asked(options: Options, conf: UserConf) -> Options:
    """The options, with real-time mode from its key unless the option is given.

    The key alone would have no effect: the provider's name, which is set without the option, makes
    Spark refuse real-time mode.
    """
    configured = conf.get(REAL_TIME_KEY)
    if "real_time_mode" in options or configured is None or not is_on(configured[0]):
        return options
    return {**options, "real_time_mode": True}


def _conflicts(conf: UserConf, given: Mapping[str, str]) -> Iterator[str]:
    """One sentence for each conflicting setting."""
    yield from conf_problems({k: v for k, v in conf.merged().items() if k not in given})
    provider = conf.get(PROVIDER_KEY)
    if provider is not None and provider[0] != PROVIDER_CLASS:
        yield (
            f"{PROVIDER_KEY} is {provider[0]} in {provider[1]}: remove it there, "
            f"or do not configure Cleancut."
        )
    elif provider is not None and PROVIDER_KEY not in given:
        yield (
            f"{PROVIDER_KEY} is set in {provider[1]}, so Spark would run no query in real-time "
            f"mode: remove it there."
        )
    for key in (FILE_MANAGER_KEY, f"spark.hadoop.{FILE_MANAGER_KEY}"):
        manager = conf.get(key)
        if manager is not None and manager[0] != FILE_MANAGER_CLASS:
            yield (
                f"{key} is {manager[0]} in {manager[1]}, and Cleancut has its own file manager: "
                f"remove it there."
            )


def _jar_problems(conf: UserConf, jars: Sequence[str]) -> Iterator[str]:
    for other in strangers(_jars(conf), jars):
        yield (
            f"{_JARS_KEY} has {other}, which is not a jar of this release for this Spark: "
            f"remove it."
        )
    submitted = conf.sources.get(SUBMIT_ARGS, {}).get(_JARS_KEY)
    if submitted is not None and (lacking := without(jars, submitted.split(","))):
        # The arguments of spark-submit override the settings of the builder.
        missing = listed(lacking)
        yield f"{SUBMIT_ARGS} has jars, which replace {_JARS_KEY}: add {missing} to them."


def _class_path_problems(jvm: Any | None, jars: Sequence[str]) -> Iterator[str]:
    """Jars of another release among Spark's own jars, or on the class path of a running JVM."""
    of_spark = [str(path) for path in spark_jars().glob("cleancut-*.jar")]
    loaded = None if jvm is None else loaded_from(jvm)
    jars_found = [*of_spark, *([] if loaded is None else [loaded])]
    for other in sorted({*strangers(jars_found, jars)}):
        place = " and ".join(jars)
        yield f"{other} is on the class path, and of another release: replace it by {place}."
    if of_spark and (lacking := without(jars, of_spark)) and not strangers(of_spark, jars):
        # Spark's class loader has one of them, and does not search spark.jars for the other.
        has = ", ".join(of_spark)
        yield f"Spark's own jars have only {has} of Cleancut: add {lacking[0]} to them."


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
