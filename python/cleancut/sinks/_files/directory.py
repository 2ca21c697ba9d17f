"""The place that a sink writes to, as Cleancut's JVM side reaches it, or as it is read without."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cleancut._session.driver import driver_of, text_of
from cleancut.errors import translating

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cleancut.sinks._files.publishing import Output


class SinkDirectory:
    """Implements `Records`, and writes: a directory in a bucket or of a file system of Hadoop.

    Names are those below the directory, with slashes between their parts. Records are written as
    the objects of a checkpoint are, by the same client; files of rows by Spark's own writers. Both
    are done by the driver of the session, which may be the server of this client.

    Attributes:
        location: the directory, as Hadoop names it.
    """

    def __init__(self, spark: "SparkSession", path: str) -> None:
        self._driver = driver_of(spark)
        self._path = path
        self.location: str = self._asked("location")

    def _asked(self, method: str, *arguments: str) -> Any:
        """What the driver says of the directory, which each call names anew."""
        with translating():
            side = self._driver.side("sinks")
            return getattr(side, method)(self._driver.session, self._path, *arguments)

    def at(self, name: str) -> str:
        return f"{self.location.rstrip('/')}/{name}"

    def read(self, name: str) -> bytes | None:
        found = text_of(self._asked("read", name))
        return None if found is None else found.encode()

    def names(self, directory: str) -> list[str]:
        # One text, because there is a name for each epoch, and a call for each takes seconds.
        return _lines(self._asked("names", directory))

    def prepare(self) -> None:
        """Makes sure, once in a run, that the place will do, and clears what crashes have left.

        Raises:
            RequestError: CLEANCUT_OBJECT_STORE_UNSAFE.
        """
        self._asked("prepare")

    def create(self, name: str, body: bytes) -> bool:
        return bool(self._asked("create", name, body.decode()))

    def files(self, directory: str) -> Iterator[tuple[str, int]]:
        """Name and size in bytes of each file below a directory that is there."""
        return _listed(self._asked("files", directory))

    def write(
        self, rows: "DataFrame", output: "Output", directory: str
    ) -> tuple[int, list[tuple[str, int]]]:
        """Writes rows into a directory that is not there, reading them once.

        Tasks that failed or were too late may have left other files there.

        Returns:
            How many rows, and name and size in bytes of each file.
        """
        place = self.at(directory)
        count, files = written(
            rows, output.format, dict(output.options), output.partition_by, place
        )
        return count, [(f"{directory}/{name}", size) for name, size in files]

    def delete(self, name: str) -> None:
        """Removes a file, or a directory with all that is in it, if it is there."""
        self._asked("delete", name)

    remove = delete


def written(
    rows: "DataFrame",
    form: str,
    options: Mapping[str, str],
    partition_by: Sequence[str],
    place: str,
) -> tuple[int, list[tuple[str, int]]]:
    """Has Spark's own writers write rows into a directory that is not there, reading them once.

    Args:
        rows: of any session.
        form: Spark's name of the format.
        options: of the format.
        partition_by: columns that go into the names of directories.
        place: the directory, as Hadoop names it.

    Returns:
        How many rows, and name below the directory and size in bytes of each file.
    """
    driver = driver_of(rows.sparkSession)
    told = json.dumps(dict(options)), json.dumps(list(partition_by))
    with translating():
        found = driver.side("sinks").write(driver.given(rows), form, *told, place)
    count, _, files = str(found).partition("\n")
    return int(count), list(_listed(files))


def bytes_of(rows: "DataFrame") -> int:
    """How many bytes Spark takes rows for, which it knows of those that it keeps."""
    driver = driver_of(rows.sparkSession)
    with translating():
        return int(driver.side("sinks").bytes(driver.given(rows)))


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []


def _listed(lines: str) -> Iterator[tuple[str, int]]:
    for line in _lines(lines):
        size, _, name = line.partition(" ")
        yield name, int(size)
