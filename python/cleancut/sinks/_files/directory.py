"""The place that a sink writes to, as Cleancut's JVM side reaches it, or as it is read without."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from cleancut._reading.root import objects_at
from cleancut._spark.connect import jvm_side, require_classic
from cleancut._storage.s3 import S3Access
from cleancut.errors import translating

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cleancut.sinks._files.publishing import Output

_JVM_SIDE = "org.apache.spark.sql.execution.streaming.state.cleancut.sinks.SinkRows"


class Records(Protocol):
    """Small files below one path, which say what is published there.

    Attributes:
        location: the path.
    """

    location: str

    def at(self, name: str) -> str:
        """The whole path of a name."""

    def read(self, name: str) -> bytes | None:
        """All bytes of a file; None if there is none."""

    def names(self, directory: str) -> list[str]:
        """The names in a directory, without it; none if there is no such directory.

        What lies deeper is told by the name of the directory that it is in.
        """

    def create(self, name: str, body: bytes) -> bool:
        """Makes a file that appears at once and whole, unless there is one of that name.

        Returns:
            Whether it was made.
        """

    def delete(self, name: str) -> None:
        """Removes a file, if it is there."""

    def remove(self, directory: str) -> None:
        """Removes a directory with all that is in it, if it is there."""


class SinkDirectory:
    """Implements `Records`, and writes: a directory in a bucket or of a file system of Hadoop.

    Names are those below the directory, with slashes between their parts. Records are written as
    the objects of a checkpoint are, by the same client; files of rows by Spark's own writers.

    Attributes:
        location: the directory, as Hadoop names it.
    """

    def __init__(self, spark: "SparkSession", path: str) -> None:
        require_classic(spark, "session")
        self._rows: Any = jvm_side(spark._jvm, _JVM_SIDE)
        with translating():
            self._directory: Any = self._rows.directory(spark._jsparkSession, path)
            self.location: str = self._directory.location()

    def at(self, name: str) -> str:
        return f"{self.location.rstrip('/')}/{name}"

    def read(self, name: str) -> bytes | None:
        with translating():
            found = self._directory.read(name)
        return None if found is None else bytes(found)

    def names(self, directory: str) -> list[str]:
        with translating():
            # One text, because there is a name for each epoch, and a call for each takes seconds.
            return _lines(self._directory.names(directory))

    def prepare(self) -> None:
        """Makes sure, once in a run, that the place will do, and clears what crashes have left.

        Raises:
            RequestError: CLEANCUT_OBJECT_STORE_UNFIT.
        """
        with translating():
            self._directory.prepare()

    def create(self, name: str, body: bytes) -> bool:
        with translating():
            return bool(self._directory.create(name, body))

    def files(self, directory: str) -> Iterator[tuple[str, int]]:
        """Name and size in bytes of each file below a directory that is there."""
        with translating():
            return _listed(self._directory.files(directory))

    def write(
        self, rows: "DataFrame", output: "Output", directory: str
    ) -> tuple[int, list[tuple[str, int]]]:
        """Writes rows into a directory that is not there, reading them once.

        Tasks that failed or were too late may have left other files there.

        Returns:
            How many rows, and name and size in bytes of each file.
        """
        jvm: Any = rows.sparkSession._jvm
        options, columns = jvm.java.util.HashMap(), jvm.java.util.ArrayList()
        for key, value in output.options.items():
            options.put(key, value)
        for column in output.partition_by:
            columns.add(column)
        with translating():
            written = self._rows.write(
                rows._jdf, output.format, options, columns, self.at(directory)
            )
        count, _, files = str(written).partition("\n")
        return int(count), [(f"{directory}/{name}", size) for name, size in _listed(files)]

    def delete(self, name: str) -> None:
        """Removes a file, or a directory with all that is in it, if it is there."""
        with translating():
            self._directory.delete(name)

    remove = delete


class PlainRecords:
    """Implements `Records` without a JVM.

    Attributes:
        location: the path.
    """

    def __init__(self, location: str, endpoint: str | None, region: str | None) -> None:
        self.location = location
        self._objects = objects_at(location, "", S3Access(endpoint, region))

    def at(self, name: str) -> str:
        return self._objects.path(name)

    def read(self, name: str) -> bytes | None:
        try:
            return self._objects.read(name)
        except FileNotFoundError:
            return None

    def names(self, directory: str) -> list[str]:
        found = (name.removeprefix(f"{directory}/") for name in self._objects.list(directory))
        return list(dict.fromkeys(name.partition("/")[0] for name in found))

    def create(self, name: str, body: bytes) -> bool:
        return self._objects.create(name, body)

    def delete(self, name: str) -> None:
        self._objects.delete(name)

    def remove(self, directory: str) -> None:
        for name in self._objects.list(directory):
            self._objects.delete(name)


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []


def _listed(lines: str) -> Iterator[tuple[str, int]]:
    for line in _lines(lines):
        size, _, name = line.partition(" ")
        yield name, int(size)
