"""The jars in this package: one for each Spark version, and a common one."""

import functools
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from cleancut._session.installation import SCALA, spark_line
from cleancut._version import __version__
from cleancut.errors import error_of

_JARS = Path(__file__).resolve().parents[1] / "jars"
_SHARED, _OF_LINE = "cleancut-common", "cleancut-spark-"


def jar_paths() -> tuple[str, ...]:
    """Full paths of the jars for the installed Spark, which requires all of them.

    Join them by commas for `spark.jars` and `--jars`, by colons for a class path.

    If the package is imported from an archive, as with `--py-files`, they are unpacked into a
    temporary directory, which is deleted when the process ends.

    Raises:
        RequestError: CLEANCUT_VERSION_UNSUPPORTED, no Spark is installed or there is no jar for it;
            CLEANCUT_JAR_MISSING, the jar is not built in this source tree.
    """
    names = (_SHARED, f"{_OF_LINE}{spark_line()}")
    paths = [_JARS / f"{name}_{SCALA}-{__version__}.jar" for name in names]
    return tuple(str(_file(path)) for path in paths)


def _file(path: Path) -> Path:
    file = path if path.is_file() else _unpacked(path)
    if file is None:
        raise error_of("CLEANCUT_JAR_MISSING", path=path)
    return file


def without(jars: Iterable[str], others: Iterable[str]) -> list[str]:
    """The jars without those of `others`; jars are compared by name, without their directories."""
    names = {_name(other) for other in others}
    return [jar for jar in jars if _name(jar) not in names]


def strangers(others: Iterable[str], jars: Iterable[str]) -> list[str]:
    """Other jars that are Cleancut's by their names."""
    ours = [one for one in others if _name(one).startswith((_SHARED, _OF_LINE))]
    return without(ours, jars)


def _name(jar: str) -> str:
    return PurePosixPath(jar.strip()).name


@functools.cache
def _unpacked(path: Path) -> Path | None:
    """A file of an archive, unpacked for Spark; None if there is no such archive."""
    archive = next((parent for parent in path.parents if parent.exists()), path)
    if not archive.is_file() or not zipfile.is_zipfile(archive):
        return None
    directory = Path(_kept_directory().name)
    with zipfile.ZipFile(archive) as opened:
        name = path.relative_to(archive).as_posix()
        if name not in opened.namelist():
            return None
        # The names of jars have a meaning, so the file keeps its name.
        return Path(opened.extract(name, directory))


@functools.cache
def _kept_directory() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="cleancut-")
