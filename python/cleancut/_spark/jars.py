"""The jars that this package carries: one for each line of Spark."""

import functools
import tempfile
import zipfile
from pathlib import Path

from cleancut._spark.installed import SCALA, spark_line
from cleancut._version import __version__
from cleancut.errors import error_of

JAR_PREFIX = "cleancut-spark-"
_JARS = Path(__file__).resolve().parents[1] / "jars"


def jar_path() -> str:
    """Full path of the jar for the installed Spark, for `spark.jars` or `--jars`.

    Of a package that is imported from an archive, as with `--py-files`, it is unpacked into a
    temporary directory, which goes when the process ends.

    Raises:
        RequestError: CLEANCUT_VERSION_UNSUPPORTED, where no Spark is found or there is no jar for
            it. CLEANCUT_JAR_MISSING, in a source tree where it has not been built.
    """
    path = _JARS / f"{JAR_PREFIX}{spark_line()}_{SCALA}-{__version__}.jar"
    found = path if path.is_file() else _unpacked(path)
    if found is None:
        raise error_of("CLEANCUT_JAR_MISSING", path=path)
    return str(found)


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
