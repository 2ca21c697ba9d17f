"""The user's configuration, from outside this package and before Spark starts."""

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cleancut._session.installation import spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUILDER = "the builder"
SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
DEFAULTS = "spark-defaults.conf"
JVM = "the configuration of the running JVM"
SESSION = "the session that runs (spark.conf.unset takes it out)"

_PROPERTY = re.compile(r"([^\s:=]+)\s*[\s:=]\s*(.*)")


@dataclass(frozen=True)
class UserConf:
    """Configuration by source, in order of precedence.

    Settings of spark-env.sh, and lines of spark-defaults.conf that are continued by a backslash,
    are not included.
    """

    sources: Mapping[str, Mapping[str, str]]

    def get(self, key: str) -> tuple[str, str] | None:
        """The value of a key and its source."""
        for source, confs in self.sources.items():
            if key in confs:
                return confs[key], source
        return None

    def merged(self) -> dict[str, str]:
        """All keys, each from the source with the highest precedence."""
        merged: dict[str, str] = {}
        for confs in self.sources.values():
            merged = {**confs, **merged}
        return merged


def user_conf(
    options: Mapping[str, Any], jvm: Any | None, session: "SparkSession | None"
) -> UserConf:
    """Collects the options of a builder, and the other sources that Spark would read.

    Args:
        options: the options of the builder.
        jvm: the running JVM, which has read all other sources and replaces them.
        session: the running session, which also replaces them.
    """
    builder = {key: str(value) for key, value in options.items()}
    if session is not None:
        return UserConf({BUILDER: builder, SESSION: dict(session.conf.getAll)})
    if jvm is not None:
        from pyspark import SparkConf

        return UserConf({BUILDER: builder, JVM: dict(SparkConf().getAll())})
    submit = _submit_args(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    named = submit.pop("--properties-file", None)
    return UserConf({BUILDER: builder, SUBMIT_ARGS: submit, DEFAULTS: _defaults(named)})


def _submit_args(text: str) -> dict[str, str]:
    """The configuration in the arguments of spark-submit, as keys."""
    keys = {"--jars": "spark.jars", "--properties-file": "--properties-file"}
    confs: dict[str, str] = {}
    words = shlex.split(text)
    for i, word in enumerate(words):
        option, equals, value = word.partition("=")
        if not equals and i + 1 < len(words):
            value = words[i + 1]
        if option in keys:
            confs[keys[option]] = value
        elif option in ("--conf", "-c"):
            key, _, conf_value = value.partition("=")
            confs[key] = conf_value
    return confs


def _defaults(named: str | None) -> dict[str, str]:
    """The properties of spark-submit's default file, or of the given file."""
    directory = os.environ.get("SPARK_CONF_DIR")
    path = Path(directory) if directory else spark_home() / "conf"
    path = Path(named) if named else path / "spark-defaults.conf"
    if not path.is_file():
        return {}
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    matches = (_PROPERTY.fullmatch(line) for line in lines if line and line[0] not in "#!")
    return {match[1]: match[2].strip() for match in matches if match}
