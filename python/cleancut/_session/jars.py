"""The jars that this package carries: one for each line of Spark, and what all of them share."""

import functools
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from cleancut._session.installed import SCALA, spark_line
from cleancut._version import __version__
from cleancut.errors import error_of

_JARS = Path(__file__).resolve().parents[1] / "jars"
_SHARED, _OF_LINE = "cleancut-common", "cleancut-spark-"


def jar_paths() -> tuple[str, ...]:
    """Full paths of the jars for the installed Spark, which needs all of them.

    Joined by commas they are what `spark.jars` and `--jars` take; by colons, a class path.

    Of a package that is imported from an archive, as with `--py-files`, they are unpacked into a
    temporary directory, which goes when the process ends.

    Raises:
        RequestError: CLEANCUT_VERSION_UNSUPPORTED, where no Spark is found or there is no jar for
            it. CLEANCUT_JAR_MISSING, in a source tree where one has not been built.
    """
    names = (_SHARED, f"{_OF_LINE}{spark_line()}")
    paths = [_JARS / f"{name}_{SCALA}-{__version__}.jar" for name in names]
    return tuple(str(_file(path)) for path in paths)


def _file(path: Path) -> Path:
    found = path if path.is_file() else _unpacked(path)
    if found is None:
        raise error_of("CLEANCUT_JAR_MISSING", path=path)
    return found


def without(jars: Iterable[str], others: Iterable[str]) -> list[str]:
    """The jars that are not among others; the same release under another path is the same jar."""
    names = {_name(other) for other in others}
    return [jar for jar in jars if _name(jar) not in names]


def strangers(others: Iterable[str], jars: Iterable[str]) -> list[str]:
    """What is Cleancut's by its name among others, and is none of these jars."""
    ours = [one for one in others if _name(one).startswith((_SHARED, _OF_LINE))]
    return without(ours, jars)


def _name(jar: str) -> str:
    return PurePosixPath(jar.strip()).name


@functools.cache
def _unpacked(path: Path) -> Path | None:
    """A file of an archive as one that Spark can read; None where there is no such archive."""
    archive = next((parent for parent in path.parents if parent.exists()), path)
    if not archive.is_file() or not zipfile.is_zipfile(archive):
        return None
    directory = Path(_kept_directory().name)
    with zipfile.ZipFile(archive) as opened:
        name = path.relative_to(archive).as_posix()
        if name not in opened.namelist():
            return None
        # The names of jars say what they are, so that this one keeps its own.
        return Path(opened.extract(name, directory))


@functools.cache
def _kept_directory() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="cleancut-")
