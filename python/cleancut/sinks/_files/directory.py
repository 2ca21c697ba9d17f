"""The directory of a sink, accessed through Cleancut's JVM side or without a JVM."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cleancut._session.driver import driver_of, text_of
from cleancut.errors import translating

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cleancut.sinks._files.publisher import Output


class SinkDirectory:
    """Implements `Records` and writes rows: a directory in a bucket or in a Hadoop file system.

    Names are relative to the directory, separated by slashes. The client of checkpoints writes
    records; Spark's own writers write files of rows. Both run on the driver of the session, which
    may be the server of this client.

    Attributes:
        location: the directory, in Hadoop's form.
    """

    def __init__(self, spark: "SparkSession", path: str) -> None:
        self._driver = driver_of(spark)
        self._path = path
        self.location: str = self._call("location")

    def _call(self, method: str, *arguments: str) -> Any:
        """Calls a method of the driver's directory, which each call opens again."""
        with translating():
            side = self._driver.side("sinks")
            return getattr(side, method)(self._driver.session, self._path, *arguments)

    def at(self, name: str) -> str:
        return f"{self.location.rstrip('/')}/{name}"

    def read(self, name: str) -> bytes | None:
        text = text_of(self._call("read", name))
        return None if text is None else text.encode()

    def names(self, directory: str) -> list[str]:
        # Returned as one text: a call for each epoch's name takes seconds.
        return _lines(self._call("names", directory))

    def prepare(self) -> None:
        """Checks the directory once in a run, and deletes leftovers of crashes.

        Raises:
            RequestError: CLEANCUT_OBJECT_STORE_UNSAFE.
        """
        self._call("prepare")

    def create(self, name: str, body: bytes) -> bool:
        return bool(self._call("create", name, body.decode()))

    def files(self, directory: str) -> Iterator[tuple[str, int]]:
        """Name and size in bytes of each file below an existing directory."""
        return _listed(self._call("files", directory))

    def write(
        self, rows: "DataFrame", output: "Output", directory: str
    ) -> tuple[int, list[tuple[str, int]]]:
        """Writes rows into a new directory, reading them once.

        Tasks that failed or were late may leave other files in it.

        Returns:
            The number of rows, and name and size in bytes of each file.
        """
        place = self.at(directory)
        count, files = written(
            rows, output.format, dict(output.options), output.partition_by, place
        )
        return count, [(f"{directory}/{name}", size) for name, size in files]

    def delete(self, name: str) -> None:
        """Deletes a file, or a directory with all its files, if it exists."""
        self._call("delete", name)

    remove = delete


def written(
    rows: "DataFrame",
    form: str,
    options: Mapping[str, str],
    partition_by: Sequence[str],
    place: str,
) -> tuple[int, list[tuple[str, int]]]:
    """Writes rows into a new directory by Spark's own writers, reading them once.

    Args:
        rows: rows of any session.
        form: Spark's name of the format.
        options: options of the format.
        partition_by: partition columns, in the names of directories.
        place: the directory, in Hadoop's form.

    Returns:
        The number of rows, and for each file its name below the directory and its size in bytes.
    """
    driver = driver_of(rows.sparkSession)
    encoded = json.dumps(dict(options)), json.dumps(list(partition_by))
    with translating():
        report = driver.side("sinks").write(driver.given(rows), form, *encoded, place)
    count, _, files = str(report).partition("\n")
    return int(count), list(_listed(files))


def bytes_of(rows: "DataFrame") -> int:
    """Spark's estimate of the size of rows, which is exact for cached rows."""
    driver = driver_of(rows.sparkSession)
    with translating():
        return int(driver.side("sinks").bytes(driver.given(rows)))


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []


def _listed(lines: str) -> Iterator[tuple[str, int]]:
    for line in _lines(lines):
        size, _, name = line.partition(" ")
        yield name, int(size)
