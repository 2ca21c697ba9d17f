"""The jar that this package carries."""

from pathlib import Path

from cleancut._version import __version__
from cleancut.errors import error_of

JAR_PREFIX = "cleancut_"
_JARS = Path(__file__).resolve().parent / "jars"


def jar_path() -> str:
    """Full path of the jar with the state store provider, for `spark.jars` or `--jars`.

    Raises:
        RequestError: CLEANCUT_JAR_MISSING, in a source tree where it has not been built.
    """
    path = _JARS / f"{JAR_PREFIX}2.13-{__version__}.jar"
    if not path.is_file():
        raise error_of("CLEANCUT_JAR_MISSING", path=path)
    return str(path)
