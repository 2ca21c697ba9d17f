"""The jars that this package carries: one for each line of Spark."""

from pathlib import Path

from cleancut._spark.installed import SCALA, spark_line
from cleancut._version import __version__
from cleancut.errors import error_of

JAR_PREFIX = "cleancut-spark-"
_JARS = Path(__file__).resolve().parents[1] / "jars"


def jar_path() -> str:
    """Full path of the jar for the installed Spark, for `spark.jars` or `--jars`.

    Raises:
        RequestError: CLEANCUT_VERSION_UNSUPPORTED, where no Spark is found or there is no jar for
            it. CLEANCUT_JAR_MISSING, in a source tree where it has not been built.
    """
    path = _JARS / f"{JAR_PREFIX}{spark_line()}_{SCALA}-{__version__}.jar"
    if not path.is_file():
        raise error_of("CLEANCUT_JAR_MISSING", path=path)
    return str(path)
