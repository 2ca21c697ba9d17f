"""Options as the configuration of a session, checked before Spark starts."""

import difflib
from collections.abc import Mapping
from typing import Any, cast

from cleancut._keywords import check_keywords
from cleancut._provider import PROVIDER_CLASS, PROVIDER_KEY
from cleancut._session.options import OPTIONS, PREFIX, REMOVED, Options

EXTENSION_CLASS = "io.cleancut.CleancutExtensions"
EXTENSIONS_KEY = "spark.sql.extensions"
FILE_MANAGER_CLASS = "io.cleancut.CleancutCheckpointFileManager"
# For the server of Spark Connect; ignored elsewhere.
CONNECT_KEY = "spark.connect.extensions.relation.classes"
CONNECT_CLASS = "io.cleancut.CleancutConnect"
FILE_MANAGER_KEY = "spark.sql.streaming.checkpointFileManagerClass"
REAL_TIME_KEY = f"{PREFIX}realTimeMode"


def checked_names(given: Mapping[str, Any]) -> Options:
    """Checks that the names of options exist.

    Raises:
        TypeError: an option does not exist; the text is that of Python's own error.
    """
    check_keywords(given, [option.name for option in OPTIONS])
    return cast("Options", given)


def problems_of(options: Options) -> list[str]:
    """One sentence for each invalid option."""
    problems = []
    for option in OPTIONS:
        if option.name not in options:
            continue
        value = options[option.name]  # type: ignore[literal-required]
        text = option.render(value)
        if text is None or not option.rule.accepts(text):
            problems.append(f"{option.name} must be {option.rule.allowed}, not {value!r}.")
    if options.get("cuts") is False and options.get("mode") in ("unaligned", "auto"):
        problems.append(
            f"mode {options['mode']!r} requires cuts, and cuts is False: set cuts=True, which "
            f"cannot be undone in place, or leave out the mode."
        )
    return problems


def confs_of(options: Options) -> dict[str, str]:
    """The configuration of a session with the provider and the options that were given."""
    confs = {EXTENSIONS_KEY: EXTENSION_CLASS, FILE_MANAGER_KEY: FILE_MANAGER_CLASS}
    if options.get("real_time_mode") is not True:
        confs = {PROVIDER_KEY: PROVIDER_CLASS} | confs
    given = {option.key: option.render(options.get(option.name)) for option in OPTIONS}
    return confs | {key: text for key, text in given.items() if text is not None}


def is_on(text: str) -> bool:
    """Whether the text of a switch is true, as the JVM side parses it."""
    return text.strip().lower() == "true"


def conf_problems(confs: Mapping[str, str]) -> list[str]:
    """Problems, one sentence each: invalid values, and removed or unknown keys of Cleancut."""
    options = {option.key: option for option in OPTIONS}
    problems = []
    for key, text in sorted(confs.items()):
        option = options.get(key)
        if not key.startswith(PREFIX):
            continue
        if key in REMOVED:
            problems.append(f"{key} was removed. Set {REMOVED[key].key} instead.")
        elif option is None:
            nearest = difflib.get_close_matches(key, options, n=1, cutoff=0.0)[0]
            problems.append(f"{key} is not a key; the nearest is {nearest}.")
        elif not option.rule.accepts(text.strip()):
            problems.append(f"{key} must be {option.rule.allowed}, not '{text}'.")
    return problems
