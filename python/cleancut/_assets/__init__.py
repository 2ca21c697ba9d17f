"""Files for other programs: alert rules for Prometheus, and a dashboard for Grafana."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

# By the program that reads the file.
ASSETS: Mapping[str, str] = {
    "rules.yml": "alert rules for Prometheus",
    "dashboard.json": "dashboard for Grafana",
}


# The logging of the Spark that the command starts: log4j reads a file, in any process.
LOG4J = "log4j2.properties"


def asset(name: str) -> str:
    """The text of a file."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def changed_assets(directory: Path) -> list[str]:
    """The names of files in a directory whose text differs from that of this version."""
    written = {name: directory / name for name in ASSETS if (directory / name).exists()}
    return [name for name, path in written.items() if path.read_text("utf-8") != asset(name)]


def write_assets(directory: Path) -> list[Path]:
    """Writes all files into a directory, which it creates.

    Returns:
        The paths of the files.
    """
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / name for name in ASSETS]
    for path in paths:
        path.write_text(asset(path.name), encoding="utf-8")
    return paths
