"""Options are checked before Spark starts, with the rules of the JVM side."""

import inspect
import re
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin

import pytest

from cleancut import configure
from cleancut._session.options import OPTIONS, PREFIX, REMOVED, Options
from cleancut._session.settings import conf_problems, confs_of, problems_of

REFERENCE = Path(__file__).resolve().parents[2] / "docs/reference/configuration.md"


def test_the_options_are_the_keys_of_the_jvm() -> None:
    """The reference page is generated from the JVM's declaration of the keys."""
    text = REFERENCE.read_text(encoding="utf-8")
    row = re.compile(r"^\| `([\w.]+)` \| `[^`]+` \| [^|]+ \| ([^|]+) \|", re.MULTILINE)
    keys = {f"{PREFIX}{name}": allowed.strip() for name, allowed in row.findall(text)}
    assert keys
    assert {option.key: option.rule.allowed for option in OPTIONS} == keys


def test_a_removed_key_is_refused_with_the_key_that_replaces_it() -> None:
    """The reference page lists the removed keys of the JVM with their successors."""
    _, _, section = REFERENCE.read_text(encoding="utf-8").partition("## Removed keys")
    row = re.compile(r"^\| `([\w.]+)` \| [\d.]+ \| `([\w.]+)` \|", re.MULTILINE)
    removed = {f"{PREFIX}{old}": f"{PREFIX}{new}" for old, new in row.findall(section)}
    assert len(removed) == 16
    assert {key: option.key for key, option in REMOVED.items()} == removed
    for key, successor in removed.items():
        assert conf_problems({key: "auto"}) == [f"{key} was removed. Set {successor} instead."]


def test_options_with_few_values_are_typed_as_literals() -> None:
    """A type checker refuses `mode="unalined"`, as does the option itself at run time."""
    for option in OPTIONS:
        words = set(re.split(", | or ", option.rule.allowed)) - {"true", "false"}
        is_list = all(re.fullmatch("[a-z0-9]+", word) for word in words)
        typed = {word for part in (option.type, *get_args(option.type)) for word in _words(part)}
        if is_list:
            assert typed == words, option.name
        elif "auto" in typed:
            assert option.rule.accepts("auto"), option.name


def test_the_docstring_of_configure_describes_each_option() -> None:
    parameters = dict(inspect.signature(configure).parameters)
    assert list(parameters) == ["builder", *(option.name for option in OPTIONS)]
    shown = inspect.getdoc(configure) or ""
    for option in OPTIONS:
        assert f"    {option.name}: {option.text}\n" in shown
        assert parameters[option.name].kind is inspect.Parameter.KEYWORD_ONLY


def test_an_option_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(TypeError, match="'mod' is not an option; the nearest is 'mode'"):
        configure(cast("Any", object()), mod="auto")  # type: ignore[call-arg]


def _words(part: object) -> tuple[str, ...]:
    return get_args(part) if get_origin(part) is Literal else ()


CONFS = {
    "spark.sql.streaming.stateStore.providerClass": "io.cleancut.CleancutStateStoreProvider",
    "spark.sql.extensions": "io.cleancut.CleancutExtensions",
    "spark.sql.streaming.checkpointFileManagerClass": "io.cleancut.CleancutCheckpointFileManager",
}


def test_absent_options_are_not_set() -> None:
    assert confs_of({}) == CONFS
    assert problems_of({}) == []


@pytest.mark.parametrize(
    ("given", "conf"),
    [
        ({"compression_level": -7}, "-7"),
        ({"compression_level": 19}, "19"),
        ({"change_feed": "all"}, "all"),
        ({"lock_acquire_timeout": "120s"}, "120s"),
        ({"lock_acquire_timeout": " 2 m "}, "2 m"),
        ({"lock_acquire_timeout": "3600000ms"}, "3600000ms"),
        ({"lock_acquire_timeout": timedelta(seconds=1.5)}, "1500ms"),
        ({"lock_acquire_timeout": timedelta(0)}, "0ms"),
        ({"lock_acquire_timeout": timedelta(hours=1)}, "3600000ms"),
        ({"max_off_heap_memory": "auto"}, "auto"),
        ({"max_off_heap_memory": " 2 g "}, "2 g"),
        ({"max_off_heap_memory": "1024k"}, "1024k"),
        ({"cuts": True}, "true"),
        ({"cuts": "auto"}, "auto"),
        ({"mode": "unaligned"}, "unaligned"),
        ({"mode": "auto"}, "auto"),
        ({"alignment_timeout": timedelta(seconds=3)}, "3000ms"),
        ({"max_epoch_duration": "24h"}, "24h"),
        ({"max_in_flight_bytes": "1k"}, "1k"),
        ({"split_groups": False}, "false"),
        ({"lazy_restore": False}, "false"),
        ({"pipelined_cuts": True}, "true"),
        ({"pipelined_cuts": "auto"}, "auto"),
        ({"merged_aggregation": False}, "false"),
        ({"accelerate_python": False}, "false"),
        ({"local_cache_size": "0k"}, "0k"),
        ({"standby_replicas": 1}, "1"),
        ({"state_partitions": 8}, "8"),
        ({"cut_retention": timedelta(days=7)}, "604800000ms"),
        ({"cut_retention": "8784h"}, "8784h"),
        ({"state_partitions": "auto"}, "auto"),
        ({"dialect": "r2"}, "r2"),
        ({"endpoint": "http://127.0.0.1:9000/s3"}, "http://127.0.0.1:9000/s3"),
        ({"endpoint": "auto"}, "auto"),
        ({"path_style": True}, "true"),
        ({"path_style": "auto"}, "auto"),
        ({"region": "eu-west-1"}, "eu-west-1"),
        ({"request_timeout": timedelta(seconds=30)}, "30000ms"),
        ({"trusted_scheme": "maprfs"}, "maprfs"),
        ({"encryption": "kms-bucket-key:1-2"}, "kms-bucket-key:1-2"),
        ({"encryption": "customer:/etc/key"}, "customer:/etc/key"),
        ({"requester_pays": True}, "true"),
        ({"profile": "second-site"}, "second-site"),
        ({"max_connections": 200}, "200"),
        ({"check_compatibility": True}, "true"),
    ],
)
def test_a_value_in_range_is_set(given: dict[str, Any], conf: str) -> None:
    options = cast("Options", given)
    assert problems_of(options) == []
    assert [text for key, text in confs_of(options).items() if key not in CONFS] == [conf]


def test_real_time_mode_is_set_without_the_provider() -> None:
    key = "spark.sql.streaming.stateStore.cleancut.realTimeMode"
    others = {k: v for k, v in CONFS.items() if not k.endswith("providerClass")}
    assert confs_of({"real_time_mode": True}) == others | {key: "true"}
    assert confs_of({"real_time_mode": False}) == CONFS | {key: "false"}
    assert conf_problems({key: " TRUE"}) == []
    assert conf_problems({key: "1"}) == [f"{key} must be true or false, not '1'."]


@pytest.mark.parametrize(
    "given",
    [
        {"dialect": "minio"},
        {"mode": "fast"},
        {"change_feed": "first"},
        {"alignment_timeout": "2h"},
        {"max_epoch_duration": "25h"},
        {"max_in_flight_bytes": "auto"},
        {"max_in_flight_bytes": 4096},
        {"split_groups": "no"},
        {"lazy_restore": "auto"},
        {"merged_aggregation": "auto"},
        {"local_cache_size": "auto"},
        {"local_cache_size": "-1g"},
        {"standby_replicas": -1},
        {"standby_replicas": 17},
        {"standby_replicas": "one"},
        {"state_partitions": 0},
        {"cut_retention": "7d"},
        {"cut_retention": "8785h"},
        {"state_partitions": "8"},
        {"endpoint": "127.0.0.1:9000"},
        {"endpoint": "s3://bucket"},
        {"endpoint": "http://"},
        {"path_style": "yes"},
        {"path_style": None},
        {"region": "eu west"},
        {"request_timeout": "2h"},
        {"request_timeout": 30},
        {"trusted_scheme": "maprfs://"},
        {"encryption": "aes"},
        {"requester_pays": "yes"},
        {"profile": "second site"},
        {"access_point": "arn:aws:s3:::bucket"},
        {"max_connections": 0},
    ],
)
def test_an_invalid_access_option_is_reported_with_the_allowed_values(
    given: dict[str, Any],
) -> None:
    ((name, value),) = given.items()
    allowed = next(option.rule.allowed for option in OPTIONS if option.name == name)
    assert problems_of(cast("Options", given)) == [f"{name} must be {allowed}, not {value!r}."]


@pytest.mark.parametrize("value", [None, 0, 1, "true"])
def test_an_invalid_boolean_is_reported_with_the_allowed_values(value: Any) -> None:
    assert problems_of({"real_time_mode": value}) == [
        f"real_time_mode must be true or false, not {value!r}."
    ]


@pytest.mark.parametrize("value", [None, 20, -8, True, "3", 1.0, 10**30])
def test_an_invalid_level_is_reported_with_the_allowed_range(value: Any) -> None:
    assert problems_of({"compression_level": value}) == [
        f"compression_level must be a whole number from -7 to 19, not {value!r}."
    ]


@pytest.mark.parametrize(
    "value",
    [
        None,
        120,
        "120",
        "2 days",
        "-1s",
        "61m",
        "s",
        "",
        "\uff11s",
        timedelta(hours=2),
        timedelta(-1),
    ],
)
def test_an_invalid_timeout_is_reported_with_the_allowed_range(value: Any) -> None:
    (problem,) = problems_of({"lock_acquire_timeout": value})
    assert problem.startswith(
        "lock_acquire_timeout must be a number with a unit (h, m, s, ms) up to 1h"
    )
    assert repr(value) in problem


@pytest.mark.parametrize("value", [None, 512, "512", "1023k", "0g", "1gb", "half", -1])
def test_an_invalid_memory_limit_is_reported_with_the_allowed_values(value: Any) -> None:
    (problem,) = problems_of({"max_off_heap_memory": value})
    assert problem.startswith("max_off_heap_memory must be auto, or a number with a unit")


def test_configuration_below_the_prefix_is_checked_too() -> None:
    confs = {
        "spark.sql.shuffle.partitions": "x",
        f"{PREFIX}compressionLevel": "high",
        f"{PREFIX}lockAcquireTimeout": " 5 m ",
        f"{PREFIX}compresionLevel": "3",
    }
    assert conf_problems(confs) == [
        f"{PREFIX}compresionLevel is not a key; the nearest is {PREFIX}compressionLevel.",
        f"{PREFIX}compressionLevel must be a whole number from -7 to 19, not 'high'.",
    ]
