"""The options of `cleancut.configure`, each declared once.

A declaration has the option's name and type, its rule and its description. They define the
signature and docstring of `configure`, the configuration key, the check before Spark starts, and
the option of `cleancut conf`. The rules equal those of the JVM's declaration; a test compares them.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal, TypedDict, cast, get_args, get_origin, get_type_hints

from cleancut._storage.access import S3_OPTIONS, S3Options

PREFIX = "spark.sql.streaming.stateStore.cleancut."
# Group of the keys that only `s3://` locations use.
S3 = "s3."

Mode = Literal["aligned", "unaligned", "auto"]
Dialect = Literal["auto", "aws", "r2", "generic"]
ChangeFeed = Literal["last", "all"]
Auto = Literal["auto"]
Duration = str | timedelta


@dataclass(frozen=True)
class Rule:
    """The accepted texts of a key.

    Attributes:
        allowed: description, equal to that of the JVM side.
        accepts: whether a text is accepted.
    """

    allowed: str
    accepts: Callable[[str], bool]


_UNIT_MS = {"h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_UNIT_BYTES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def _amount(text: str, units: dict[str, int]) -> int | None:
    match = re.fullmatch(rf"([0-9]{{1,12}})\s*({'|'.join(units)})", text)
    return None if match is None else int(match[1]) * units[match[2]]


def _duration(hours: int) -> Rule:
    def accepts(text: str) -> bool:
        amount = _amount(text, _UNIT_MS)
        return amount is not None and amount <= hours * _UNIT_MS["h"]

    return Rule(f"a number with a unit (h, m, s, ms) up to {hours}h", accepts)


def _size(least: str | None = None) -> Rule:
    low = 0 if least is None else _amount(least, _UNIT_BYTES)

    def accepts(text: str) -> bool:
        amount = _amount(text, _UNIT_BYTES)
        return amount is not None and low is not None and amount >= low

    up = "" if least is None else f" from {least} up"
    return Rule(f"a number with a unit (k, m, g, t){up}", accepts)


def _number(low: int, high: int) -> Rule:
    def accepts(text: str) -> bool:
        return re.fullmatch("[+-]?[0-9]{1,9}", text) is not None and low <= int(text) <= high

    return Rule(f"a whole number from {low} to {high}", accepts)


def _words(*words: str) -> Rule:
    listed = ", ".join(words[:-1])
    return Rule(f"{listed} or {words[-1]}", lambda text: text in words)


def _pattern(allowed: str, pattern: str) -> Rule:
    return Rule(allowed, lambda text: re.fullmatch(pattern, text) is not None)


def _or_auto(rule: Rule) -> Rule:
    return Rule(f"auto, or {rule.allowed}", lambda text: text == "auto" or rule.accepts(text))


_SWITCH = Rule("true or false", lambda text: text.lower() in ("true", "false"))
_ACCESS_POINT = r"arn:[a-z0-9-]+:s3[a-z0-9-]*:[a-z0-9-]*:[0-9]*:accesspoint[/:]\S+"
_ENCRYPTION = (
    "auto, s3, kms, kms:<key>, kms-bucket-key, kms-bucket-key:<key> or customer:<file>",
    r"auto|s3|kms(-bucket-key)?(:\S+)?|customer:.+",
)


class Options(TypedDict, total=False):
    """The keyword arguments of `cleancut.configure`; the last item of each describes it."""

    compression_level: Annotated[
        int,
        _number(-7, 19),
        "zstd level of written state, from -7 (fast) to 19 (small).",
    ]
    lock_acquire_timeout: Annotated[
        Duration,
        _duration(hours=1),
        "how long a task waits for a store that another attempt of the task has locked.",
    ]
    max_off_heap_memory: Annotated[
        str,
        _or_auto(_size("1m")),
        'off-heap memory limit for all state of an executor; "auto" is half its heap.',
    ]
    real_time_mode: Annotated[
        bool,
        _SWITCH,
        "whether the session may run queries in real-time mode.",
    ]
    cuts: Annotated[
        bool | Auto,
        _words("auto", "true", "false"),
        "whether cuts commit epochs on a Hadoop file system; True cannot be undone in place.",
    ]
    dialect: Annotated[
        Dialect,
        _words(*get_args(Dialect)),
        'the dialect of an S3-compatible store: "aws", "r2", "generic" or "auto".',
        S3,
    ]
    endpoint: Annotated[
        str,
        _or_auto(
            _pattern("a URL that begins with https:// or http://", r"https?://[^\s/?#]+[^\s?#]*")
        ),
        'the URL of the object store; "auto" is that of the environment, or AWS.',
        S3,
    ]
    path_style: Annotated[
        bool | Auto,
        _words("auto", "true", "false"),
        'whether the bucket is in the path of a request, or "auto".',
        S3,
    ]
    region: Annotated[
        str,
        _or_auto(_pattern("a name of letters, digits and dashes", "[A-Za-z0-9-]{1,64}")),
        'the region that requests are signed for, or "auto".',
        S3,
    ]
    request_timeout: Annotated[
        Duration,
        _duration(hours=1),
        "how long a request to the object store is repeated before it fails.",
    ]
    require_provider: Annotated[
        bool | Auto,
        _words("auto", "true", "false"),
        'whether a query is refused if another provider has its state, or "auto".',
    ]
    mode: Annotated[
        Mode,
        _words(*get_args(Mode)),
        '"aligned" waits for late tasks; "auto" and "unaligned" overtake them.',
    ]
    alignment_timeout: Annotated[
        Duration,
        _duration(hours=1),
        'how long "auto" waits for late tasks.',
    ]
    max_epoch_duration: Annotated[
        Duration,
        _duration(hours=24),
        'after how long a whole epoch is overtaken; "0ms" is no limit.',
    ]
    max_in_flight_bytes: Annotated[
        str,
        _size("1k"),
        "maximum size of in-flight rows of a shuffle input of a partition.",
    ]
    split_groups: Annotated[
        bool,
        _SWITCH,
        "whether a function may receive the rows of a key in an epoch in two calls.",
    ]
    change_feed: Annotated[
        ChangeFeed,
        _words(*get_args(ChangeFeed)),
        'whether the change feed shows the "last" change of a key in an epoch or "all".',
    ]
    lazy_restore: Annotated[
        bool,
        _SWITCH,
        "whether a store opens before its snapshot is read.",
    ]
    pipelined_cuts: Annotated[
        bool | Auto,
        _words("auto", "true", "false"),
        'whether an epoch begins while the cut of the one before is being written, or "auto".',
    ]
    handover_timeout: Annotated[
        Duration,
        _duration(hours=1),
        'how long a start waits for a running driver to complete its epoch; "0ms" takes at once.',
    ]
    merged_aggregation: Annotated[
        bool,
        _SWITCH,
        "whether groupBy merges the state of a group when it reads it.",
    ]
    accelerate_python: Annotated[
        bool,
        _SWITCH,
        "whether Python functions with state run in Cleancut's loop over groups.",
    ]
    local_cache_size: Annotated[
        str,
        _size(),
        "local disk that an executor uses to cache snapshots.",
    ]
    standby_replicas: Annotated[
        int,
        _number(0, 16),
        "number of other executors that have a copy of each snapshot, for tasks that move.",
    ]
    cut_retention: Annotated[
        Duration,
        _duration(hours=366 * 24),
        "minimum retention time of cuts, in addition to a number of last epochs.",
    ]
    state_partitions: Annotated[
        int | Auto,
        _or_auto(_number(1, 1_000_000)),
        "number of state partitions; a query with another number is rescaled when it starts.",
    ]
    trusted_scheme: Annotated[
        str,
        _or_auto(_pattern("the scheme of a URL", "[a-z][a-z0-9+.-]{0,63}")),
        "the scheme of a file system whose rename you know to decide between writers.",
    ]
    encryption: Annotated[
        str,
        _pattern(*_ENCRYPTION),
        'encryption of new objects: "s3", "kms", "kms:<key>", "customer:<file>", "auto" and more.',
        S3,
    ]
    requester_pays: Annotated[
        bool,
        _SWITCH,
        "whether requests to an s3:// location state that the requester pays.",
        S3,
    ]
    access_point: Annotated[
        str,
        _or_auto(_pattern("the ARN of an access point", _ACCESS_POINT)),
        "the ARN of an access point that receives requests instead of the bucket.",
        S3,
    ]
    max_connections: Annotated[
        int,
        _number(1, 10_000),
        "maximum number of connections of a process to the object store of an s3:// location.",
        S3,
    ]
    check_compatibility: Annotated[
        bool,
        _SWITCH,
        "whether a query that cannot continue from its checkpoint is refused at its start.",
    ]
    profile: Annotated[
        str,
        _or_auto(_pattern("the name of a profile", r"[^\s\[\]]{1,128}")),
        'profile of the AWS configuration with the credentials of requests, or "auto".',
        S3,
    ]
    history_retention: Annotated[
        Duration,
        _duration(hours=10 * 366 * 24),
        'how long the history of epochs is retained; "0ms" disables it.',
    ]
    ui_epochs: Annotated[
        int,
        _number(1, 1_000_000),
        'number of epochs in the tab "Cuts" of Spark\'s UI.',
    ]


@dataclass(frozen=True)
class Option:
    """One option, as declared.

    Attributes:
        name: the keyword.
        type: the accepted Python type.
        rule: the accepted texts of its key.
        text: description.
        group: part of the key between the prefix and the name.
    """

    name: str
    type: Any
    rule: Rule
    text: str
    group: str

    @property
    def key(self) -> str:
        """The configuration key that it sets."""
        first, *others = self.name.split("_")
        return PREFIX + self.group + first + "".join(word.capitalize() for word in others)

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def is_switch(self) -> bool:
        """Whether it is boolean."""
        return bool in self._types

    @property
    def _types(self) -> tuple[Any, ...]:
        return get_args(self.type) if get_args(self.type) else (self.type,)

    def render(self, value: object) -> str | None:
        """A value as the text of the key; None if its type is wrong."""
        types = self._types
        if isinstance(value, bool):
            return str(value).lower() if bool in types else None
        if isinstance(value, int):
            return str(value) if int in types else None
        if isinstance(value, timedelta):
            return f"{value // timedelta(milliseconds=1)}ms" if timedelta in types else None
        words = [word for part in (self.type, *types) for word in _literals(part)]
        is_text = isinstance(value, str) and (str in types or value.strip() in words)
        return str(value).strip() if is_text else None

    def parse(self, text: str) -> object:
        """The value of a command line text; the text itself if it is invalid."""
        if self.is_switch:
            return {"true": True, "false": False}.get(text, text)
        is_number = int in self._types and text != "auto" and self.rule.accepts(text)
        return int(text) if is_number else text


def _literals(part: Any) -> tuple[Any, ...]:
    return get_args(part) if get_origin(part) is Literal else ()


def _declared() -> Iterator[Option]:
    for name, hint in get_type_hints(Options, include_extras=True).items():
        kind, rule, text, *group = get_args(hint)
        yield Option(name, kind, rule, text, "".join(group))


OPTIONS = tuple(_declared())
_RENAMED = {
    "accessPoint": "access_point",
    "acquireTimeout": "lock_acquire_timeout",
    "checkCompatible": "check_compatibility",
    "connections": "max_connections",
    "dialect": "dialect",
    "encryption": "encryption",
    "endpoint": "endpoint",
    "history": "history_retention",
    "localBases": "local_cache_size",
    "memoryBound": "max_off_heap_memory",
    "pathStyle": "path_style",
    "profile": "profile",
    "region": "region",
    "requesterPays": "requester_pays",
    "require": "require_provider",
    "retention": "cut_retention",
}
# The option that replaces each removed key.
_BY_NAME = {option.name: option for option in OPTIONS}
REMOVED = {f"{PREFIX}{former}": _BY_NAME[name] for former, name in _RENAMED.items()}
_ACCESS = tuple(option for option in OPTIONS if option.name in S3_OPTIONS)
# The keys of bucket options.
ACCESS_KEYS = tuple(option.key for option in _ACCESS)


def access_keys(access: S3Options) -> dict[str, str]:
    """Bucket options as keys of a session; None stands for options that were not given."""
    given = {option.key: option.render(access.get(option.name)) for option in _ACCESS}
    return {key: text for key, text in given.items() if text is not None}


def access_of(text_of: Callable[[str], str | None]) -> S3Options:
    """The bucket options of a session.

    Args:
        text_of: returns the text of a key, None if it is not set.
    """
    texts = {option: text_of(option.key) for option in _ACCESS}
    options = {
        option.name: option.parse(text)
        for option, text in texts.items()
        if text not in (None, "auto")
    }
    return cast("S3Options", options)
