"""The options of the state store provider, checked before Spark starts."""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Literal, get_args

from cleancut._provider import PROVIDER_CLASS, PROVIDER_KEY

EXTENSION_CLASS = "io.cleancut.CleancutExtensions"
EXTENSIONS_KEY = "spark.sql.extensions"
FILE_MANAGER_CLASS = "io.cleancut.CleancutCheckpointFileManager"
# For the server of Spark Connect, which takes no notice of it elsewhere.
CONNECT_KEY = "spark.connect.extensions.relation.classes"
CONNECT_CLASS = "io.cleancut.CleancutConnect"
FILE_MANAGER_KEY = "spark.sql.streaming.checkpointFileManagerClass"
PREFIX = "spark.sql.streaming.stateStore.cleancut."
REAL_TIME_KEY = f"{PREFIX}realTimeMode"

_DURATION = re.compile(r"([0-9]{1,12})\s*(h|m|s|ms)")
_UNIT_MS = {"h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_MAX_TIMEOUT_MS = 3_600_000
_SIZE = re.compile(r"([0-9]{1,6})\s*([kmgt])")
_UNIT_BYTES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_MIN_BOUND_BYTES = 1 << 20
_MIN_IN_FLIGHT_BYTES = 1 << 10
_MAX_RETENTION_MS = 366 * 24 * 3600 * 1000
_MAX_EPOCH_MS = 86_400_000
_MAX_PARTITIONS = 1_000_000

Mode = Literal["aligned", "unaligned", "auto"]
Dialect = Literal["aws", "r2", "generic", "auto"]
ChangeFeed = Literal["last", "all"]
Auto = Literal["auto"]


class NotGiven(Enum):
    """The type of an option that was left out, so that None is never taken for "not given"."""

    NOT_GIVEN = "not given"

    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_GIVEN = NotGiven.NOT_GIVEN


@dataclass(frozen=True)
class Option:
    """An option of `cleancut.configure` and the configuration key that it sets.

    Attributes:
        name: the keyword.
        key: the configuration key.
        allowed: what values are allowed, in the words of the JVM side.
        render: a value as the text of the key; None where its type is wrong.
        accepts: whether the key may have this text.
    """

    name: str
    key: str
    allowed: str
    render: Callable[[object], str | None]
    accepts: Callable[[str], bool]

    @property
    def flag(self) -> str:
        """What it is called on a command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def is_switch(self) -> bool:
        """Whether it may be turned on and off."""
        return self.render(True) is not None

    def parse(self, text: str) -> object:
        """The value that a text stands for; the text itself where it stands for none."""
        if self.is_switch:
            return {"true": True, "false": False}.get(text, text)
        is_number = self.render(0) is not None
        return int(text) if is_number and text != "auto" and self.accepts(text) else text


def _whole_number(value: object) -> str | None:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _number_or_auto(value: object) -> str | None:
    return value if value == "auto" and isinstance(value, str) else _whole_number(value)


def _is_partition_count(text: str) -> bool:
    is_number = re.fullmatch(r"[+]?[0-9]{1,9}", text) is not None
    return text == "auto" or (is_number and 1 <= int(text) <= _MAX_PARTITIONS)


def _is_level(text: str) -> bool:
    return re.fullmatch(r"[+-]?[0-9]{1,9}", text) is not None and -7 <= int(text) <= 19


def _duration(value: object) -> str | None:
    if isinstance(value, timedelta):
        return f"{value // timedelta(milliseconds=1)}ms"
    return value.strip() if isinstance(value, str) else None


def _is_timeout(text: str) -> bool:
    return _is_duration(text, _MAX_TIMEOUT_MS)


def _is_epoch_duration(text: str) -> bool:
    return _is_duration(text, _MAX_EPOCH_MS)


def _is_retention(text: str) -> bool:
    return _is_duration(text, _MAX_RETENTION_MS)


def _is_history(text: str) -> bool:
    return _is_duration(text, 10 * _MAX_RETENTION_MS)


def _is_duration(text: str, max_ms: int) -> bool:
    found = _DURATION.fullmatch(text)
    return found is not None and int(found[1]) * _UNIT_MS[found[2]] <= max_ms


def _text(value: object) -> str | None:
    return value.strip() if isinstance(value, str) else None


def _is_bound(text: str) -> bool:
    return text == "auto" or _size(text) >= _MIN_BOUND_BYTES


def _is_in_flight_bound(text: str) -> bool:
    return _size(text) >= _MIN_IN_FLIGHT_BYTES


def _is_size(text: str) -> bool:
    return _SIZE.fullmatch(text) is not None


def _size(text: str) -> int:
    found = _SIZE.fullmatch(text)
    return 0 if found is None else int(found[1]) * _UNIT_BYTES[found[2]]


def _is_mode(text: str) -> bool:
    return text in get_args(Mode)


def _switch(value: object) -> str | None:
    return str(value).lower() if isinstance(value, bool) else None


def _is_endpoint(text: str) -> bool:
    return text == "auto" or re.fullmatch(r"https?://[^\s/?#]+[^\s?#]*", text) is not None


def _is_profile(text: str) -> bool:
    return re.fullmatch(r"[^\s\[\]]{1,128}", text) is not None


def _is_region(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9-]{1,64}", text) is not None


def _is_access_point(text: str) -> bool:
    found = re.fullmatch(r"arn:[a-z0-9-]+:s3[a-z0-9-]*:[a-z0-9-]*:[0-9]*:accesspoint[/:]\S+", text)
    return text == "auto" or found is not None


def _is_encryption(text: str) -> bool:
    return re.fullmatch(r"auto|s3|kms(-bucket-key)?(:\S+)?|customer:.+", text) is not None


def _is_epoch_count(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,7}", text) is not None and 1 <= int(text) <= 1_000_000


def _is_replica_count(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,2}", text) is not None and int(text) <= 16


def _is_connection_count(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,5}", text) is not None and 1 <= int(text) <= 10_000


def _is_scheme(text: str) -> bool:
    return re.fullmatch(r"[a-z][a-z0-9+.-]{0,63}", text) is not None


def _is_feed(text: str) -> bool:
    return text in get_args(ChangeFeed)


def _is_dialect(text: str) -> bool:
    return text in get_args(Dialect)


def _switch_or_auto(value: object) -> str | None:
    return "auto" if value == "auto" else _switch(value)


def _is_switch_or_auto(text: str) -> bool:
    return text in ("auto", "true", "false")


def _is_switch(text: str) -> bool:
    return text.lower() in ("true", "false")


def is_on(text: str) -> bool:
    """Whether the text of a switch says true, as the JVM side reads it."""
    return text.strip().lower() == "true"


OPTIONS = (
    Option(
        "access_point",
        f"{PREFIX}accessPoint",
        "auto, or the ARN of an access point",
        _text,
        _is_access_point,
    ),
    Option(
        "acquire_timeout",
        f"{PREFIX}acquireTimeout",
        "a number with a unit (h, m, s, ms) up to 1h",
        _duration,
        _is_timeout,
    ),
    Option(
        "alignment_timeout",
        f"{PREFIX}alignmentTimeout",
        "a number with a unit (h, m, s, ms) up to 1h",
        _duration,
        _is_timeout,
    ),
    Option(
        "change_feed",
        f"{PREFIX}changeFeed",
        "last or all",
        _text,
        _is_feed,
    ),
    Option(
        "check_compatible",
        f"{PREFIX}checkCompatible",
        "true or false",
        _switch,
        _is_switch,
    ),
    Option(
        "compression_level",
        f"{PREFIX}compressionLevel",
        "a whole number from -7 to 19",
        _whole_number,
        _is_level,
    ),
    Option(
        "connections",
        f"{PREFIX}connections",
        "a whole number from 1 to 10000",
        _whole_number,
        _is_connection_count,
    ),
    Option(
        "cuts",
        f"{PREFIX}cuts",
        "auto, true or false",
        _switch_or_auto,
        _is_switch_or_auto,
    ),
    Option(
        "dialect",
        f"{PREFIX}dialect",
        "auto, aws, r2 or generic",
        _text,
        _is_dialect,
    ),
    Option(
        "encryption",
        f"{PREFIX}encryption",
        "auto, s3, kms, kms:<key>, kms-bucket-key, kms-bucket-key:<key> or customer:<file>",
        _text,
        _is_encryption,
    ),
    Option(
        "endpoint",
        f"{PREFIX}endpoint",
        "auto, or a URL that begins with https:// or http://",
        _text,
        _is_endpoint,
    ),
    Option(
        "history",
        f"{PREFIX}history",
        "a number with a unit (h, m, s, ms) up to 87840h",
        _duration,
        _is_history,
    ),
    Option(
        "lazy_restore",
        f"{PREFIX}lazyRestore",
        "true or false",
        _switch,
        _is_switch,
    ),
    Option(
        "local_bases",
        f"{PREFIX}localBases",
        "a number with a unit (k, m, g, t)",
        _text,
        _is_size,
    ),
    Option(
        "max_epoch_duration",
        f"{PREFIX}maxEpochDuration",
        "a number with a unit (h, m, s, ms) up to 24h",
        _duration,
        _is_epoch_duration,
    ),
    Option(
        "max_in_flight_bytes",
        f"{PREFIX}maxInFlightBytes",
        "a number with a unit (k, m, g, t) from 1k up",
        _text,
        _is_in_flight_bound,
    ),
    Option(
        "memory_bound",
        f"{PREFIX}memoryBound",
        "auto, or a number with a unit (k, m, g, t) from 1m up",
        _text,
        _is_bound,
    ),
    Option(
        "merged_aggregation",
        f"{PREFIX}mergedAggregation",
        "true or false",
        _switch,
        _is_switch,
    ),
    Option(
        "mode",
        f"{PREFIX}mode",
        "aligned, unaligned or auto",
        _text,
        _is_mode,
    ),
    Option(
        "path_style",
        f"{PREFIX}pathStyle",
        "auto, true or false",
        _switch_or_auto,
        _is_switch_or_auto,
    ),
    Option(
        "profile",
        f"{PREFIX}profile",
        "auto, or the name of a profile",
        _text,
        _is_profile,
    ),
    Option(
        "real_time_mode",
        REAL_TIME_KEY,
        "true or false",
        _switch,
        _is_switch,
    ),
    Option(
        "region",
        f"{PREFIX}region",
        "auto, or a name of letters, digits and dashes",
        _text,
        _is_region,
    ),
    Option(
        "request_timeout",
        f"{PREFIX}requestTimeout",
        "a number with a unit (h, m, s, ms) up to 1h",
        _duration,
        _is_timeout,
    ),
    Option(
        "requester_pays",
        f"{PREFIX}requesterPays",
        "true or false",
        _switch,
        _is_switch,
    ),
    Option(
        "require",
        f"{PREFIX}require",
        "auto, true or false",
        _switch_or_auto,
        _is_switch_or_auto,
    ),
    Option(
        "retention",
        f"{PREFIX}retention",
        "a number with a unit (h, m, s, ms) up to 8784h",
        _duration,
        _is_retention,
    ),
    Option(
        "split_groups",
        f"{PREFIX}splitGroups",
        "true or false",
        _switch,
        _is_switch,
    ),
    Option(
        "standby_replicas",
        f"{PREFIX}standbyReplicas",
        "a whole number from 0 to 16",
        _whole_number,
        _is_replica_count,
    ),
    Option(
        "state_partitions",
        f"{PREFIX}statePartitions",
        "auto, or a whole number from 1 to 1000000",
        _number_or_auto,
        _is_partition_count,
    ),
    Option(
        "trusted_scheme",
        f"{PREFIX}trustedScheme",
        "auto, or the scheme of a URL",
        _text,
        _is_scheme,
    ),
    Option(
        "ui_epochs",
        f"{PREFIX}uiEpochs",
        "a whole number from 1 to 1000000",
        _whole_number,
        _is_epoch_count,
    ),
)


@dataclass(frozen=True)
class Settings:
    """The options that were given, unchecked until `problems` is asked."""

    compression_level: int | NotGiven = NOT_GIVEN
    acquire_timeout: str | timedelta | NotGiven = NOT_GIVEN
    memory_bound: str | NotGiven = NOT_GIVEN
    real_time_mode: bool | NotGiven = NOT_GIVEN
    cuts: bool | Auto | NotGiven = NOT_GIVEN
    dialect: Dialect | NotGiven = NOT_GIVEN
    endpoint: str | NotGiven = NOT_GIVEN
    path_style: bool | Auto | NotGiven = NOT_GIVEN
    region: str | NotGiven = NOT_GIVEN
    request_timeout: str | timedelta | NotGiven = NOT_GIVEN
    require: bool | Auto | NotGiven = NOT_GIVEN
    mode: Mode | NotGiven = NOT_GIVEN
    alignment_timeout: str | timedelta | NotGiven = NOT_GIVEN
    max_epoch_duration: str | timedelta | NotGiven = NOT_GIVEN
    max_in_flight_bytes: str | NotGiven = NOT_GIVEN
    split_groups: bool | NotGiven = NOT_GIVEN
    change_feed: ChangeFeed | NotGiven = NOT_GIVEN
    lazy_restore: bool | NotGiven = NOT_GIVEN
    merged_aggregation: bool | NotGiven = NOT_GIVEN
    local_bases: str | NotGiven = NOT_GIVEN
    standby_replicas: int | NotGiven = NOT_GIVEN
    retention: str | timedelta | NotGiven = NOT_GIVEN
    state_partitions: int | NotGiven = NOT_GIVEN
    trusted_scheme: str | NotGiven = NOT_GIVEN
    encryption: str | NotGiven = NOT_GIVEN
    requester_pays: bool | NotGiven = NOT_GIVEN
    access_point: str | NotGiven = NOT_GIVEN
    connections: int | NotGiven = NOT_GIVEN
    check_compatible: bool | NotGiven = NOT_GIVEN
    profile: str | NotGiven = NOT_GIVEN
    history: str | timedelta | NotGiven = NOT_GIVEN
    ui_epochs: int | NotGiven = NOT_GIVEN

    def problems(self) -> list[str]:
        """One sentence for each option that is wrong."""
        found = []
        for option in OPTIONS:
            value = getattr(self, option.name)
            text = None if value is NOT_GIVEN else option.render(value)
            if value is not NOT_GIVEN and (text is None or not option.accepts(text)):
                found.append(f"{option.name} must be {option.allowed}, not {value!r}.")
        if self.cuts is False and self.mode in ("unaligned", "auto"):
            found.append(
                f"mode {self.mode!r} requires cuts, and cuts is False: set cuts=True, which cannot "
                f"be undone in place, or leave out the mode."
            )
        return found

    def confs(self) -> dict[str, str]:
        """The configuration of a session with the provider and the options that were given."""
        confs = {EXTENSIONS_KEY: EXTENSION_CLASS, FILE_MANAGER_KEY: FILE_MANAGER_CLASS}
        if self.real_time_mode is not True:
            confs = {PROVIDER_KEY: PROVIDER_CLASS} | confs
        for option in OPTIONS:
            value = getattr(self, option.name)
            text = None if value is NOT_GIVEN else option.render(value)
            if text is not None:
                confs[option.key] = text
        return confs


def conf_problems(confs: Mapping[str, str]) -> list[str]:
    """One sentence for each wrong value and each unknown key below Cleancut's prefix."""
    options = {option.key: option for option in OPTIONS}
    found = []
    for key, text in sorted(confs.items()):
        option = options.get(key)
        if not key.startswith(PREFIX):
            continue
        if option is None:
            nearest = difflib.get_close_matches(key, options, n=1, cutoff=0.0)[0]
            found.append(f"{key} is not a key; the nearest is {nearest}.")
        elif not option.accepts(text.strip()):
            found.append(f"{key} must be {option.allowed}, not '{text}'.")
    return found
