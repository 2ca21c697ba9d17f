"""A directory of any file system that Spark can write to, by Hadoop's own client over py4j."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cleancut._spark.connect import require_classic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Stores whose objects appear when they are complete, and whose rename is a copy. Elsewhere a file
# is written under a name that nobody looks at, and renamed.
_WHOLE_AT_CLOSE = {"s3a", "s3n", "s3", "gs", "oss", "cos", "cosn", "obs", "wasb", "wasbs", "swift"}
# Hadoop's name of the option; a file system that does not know it leaves it out.
_CONDITIONAL = "fs.option.create.conditional.overwrite"


class HadoopDirectory:
    """Small files that are written once, and directories of data.

    Names are those below the directory, with slashes between their parts. What Hadoop raises goes
    through as it is, but for files that are not there.

    Attributes:
        location: the directory, as Hadoop names it.
    """

    def __init__(self, spark: "SparkSession", path: str) -> None:
        require_classic(spark, "session")
        self._gateway: Any = spark.sparkContext._gateway
        jvm: Any = spark._jvm
        self._hadoop: Any = jvm.org.apache.hadoop
        # That of the session and not of its context, as for what the session writes.
        self._conf: Any = spark._jsparkSession.sessionState().newHadoopConf()
        given = self._hadoop.fs.Path(path)
        self._files: Any = given.getFileSystem(self._conf)
        self._root: Any = self._files.makeQualified(given)
        self.location: str = self._root.toString()

    def at(self, name: str) -> str:
        """The whole path of a name."""
        return f"{self.location.rstrip('/')}/{name}"

    def read(self, name: str) -> bytes | None:
        """All bytes of a file; None if there is none."""
        from py4j.protocol import Py4JJavaError

        try:
            stream = self._files.open(self._path(name))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()
        except Py4JJavaError as failure:
            if self._is_missing(failure):
                return None
            raise

    def create(self, name: str, body: bytes, *, pending: str) -> bool:
        """Makes a file that appears at once and whole, unless there is one of that name.

        Args:
            name: of the file.
            body: its bytes.
            pending: a name that nobody else takes, where the bytes may lie before; they stay there
                if this is refused or dies.

        Returns:
            Whether it was made. False may also follow an answer that was lost: read the file to
            learn whose it is.
        """
        from py4j.protocol import Py4JJavaError

        scheme = self._files.getUri().getScheme()
        if scheme == "file":
            return _linked(self._local(name), body, self._local(pending))
        try:
            if scheme in _WHOLE_AT_CLOSE:
                self._put(name, body)
            else:
                self._rename(name, body, pending)
        except Py4JJavaError:
            # Each file system has an error of its own for a name that is taken.
            if not self._files.exists(self._path(name)):
                raise
            return False
        return True

    def names(self, directory: str) -> list[str]:
        """The names in a directory, without it; none if there is no such directory."""
        from py4j.protocol import Py4JJavaError

        try:
            found = self._files.listStatus(self._path(directory))
        except Py4JJavaError as failure:
            if self._is_missing(failure):
                return []
            raise
        if not len(found):
            return []
        # There is a name for each epoch, and calls for each of them would take seconds.
        paths = self._hadoop.fs.FileUtil.stat2Paths(
            self._array_of(self._hadoop.fs.FileStatus, found)
        )
        java: Any = self._gateway.jvm.java
        listed = java.util.Arrays.asList(self._array_of(java.lang.Object, paths))
        lines: str = self._hadoop.util.StringUtils.join("\n", listed)
        return [line.rpartition("/")[2] for line in lines.split("\n")]

    def _array_of(self, kind: Any, array: Any) -> Any:
        """The same as an array of a wider type: py4j finds no method by that of its elements."""
        wide = self._gateway.new_array(kind, len(array))
        self._gateway.jvm.java.lang.System.arraycopy(array, 0, wide, 0, len(array))
        return wide

    def files(self, directory: str) -> Iterator[tuple[str, int]]:
        """Name and size in bytes of each file below a directory that is there."""
        found = self._files.listFiles(self._path(directory), True)
        while found.hasNext():
            status = found.next()
            name = status.getPath().toString().removeprefix(self.at(""))
            yield name, status.getLen()

    def delete(self, directory: str) -> None:
        """Removes a directory with all that is in it, if it is there."""
        self._files.delete(self._path(directory), True)

    def _put(self, name: str, body: bytes) -> None:
        builder = self._files.createFile(self._path(name)).overwrite(False).recursive()
        stream = builder.opt(_CONDITIONAL, True).build()
        stream.write(body)
        stream.close()

    def _rename(self, name: str, body: bytes, pending: str) -> None:
        source, target = self._path(pending), self._path(name)
        self._files.mkdirs(target.getParent())
        stream = self._files.create(source, False)
        stream.write(body)
        stream.close()
        context = self._hadoop.fs.FileContext.getFileContext(self._files.getUri(), self._conf)
        # Without an option it refuses a target that is there.
        context.rename(source, target, self._gateway.new_array(self._hadoop.fs.Options.Rename, 0))

    def _path(self, name: str) -> Any:
        return self._hadoop.fs.Path(self._root, name)

    def _local(self, name: str) -> Path:
        return Path(self._path(name).toUri().getPath())

    def _is_missing(self, failure: Any) -> bool:
        from py4j.java_gateway import is_instance_of

        kind = "java.io.FileNotFoundException"
        return bool(is_instance_of(self._gateway, failure.java_exception, kind))


def _linked(target: Path, body: bytes, pending: Path) -> bool:
    """On a local disk, where a rename replaces its target, and a link is refused by the kernel."""
    for path in (target, pending):
        path.parent.mkdir(parents=True, exist_ok=True)
    pending.write_bytes(body)
    try:
        target.hardlink_to(pending)
    except FileExistsError:
        return False
    pending.unlink()
    return True
