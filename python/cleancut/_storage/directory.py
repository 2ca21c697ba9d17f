"""Objects as files of a directory, on any file system that pyarrow supports."""

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

import pyarrow
import pyarrow.fs

from cleancut._storage.objects import Stored
from cleancut.errors import error_of

_ATTEMPTS = 3


@dataclass(frozen=True)
class Directory:
    """Implements `Objects`.

    Attributes:
        filesystem: the file system.
        root: path of the directory on it.
    """

    filesystem: pyarrow.fs.FileSystem
    root: str

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def above(self) -> "Directory":
        return Directory(self.filesystem, self.root.rpartition("/")[0])

    def list(self, below: str) -> Mapping[str, int]:
        return {name: stored.size for name, stored in self.details(below).items()}

    def details(self, below: str) -> Mapping[str, Stored]:
        selector = pyarrow.fs.FileSelector(self.path(below), recursive=True, allow_not_found=True)
        return {
            info.path.removeprefix(f"{self.root}/"): Stored(
                info.size, (info.mtime_ns or 0) // 10**6
            )
            for info in self.filesystem.get_file_info(selector)
            if info.is_file
        }

    def read(self, name: str) -> bytes:
        with self.filesystem.open_input_file(self.path(name)) as file:
            return bytes(file.readall())

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        with self.filesystem.open_input_file(self.path(name)) as file:
            # At an offset after the end, pyarrow raises or reads nothing, by the file system.
            available = max(0, min(length, file.size() - offset))
            return bytes(file.read_at(available, offset)) if available else b""

    @property
    def creates_if_absent(self) -> bool:
        """Whether exactly one of two concurrent creates of an object succeeds."""
        # A link does not replace a file, nor does a rename on HDFS. Others rename by copying.
        exclusive = (pyarrow.fs.LocalFileSystem, pyarrow.fs.HadoopFileSystem)
        return isinstance(self.filesystem, exclusive)

    def create(self, name: str, data: bytes) -> bool:
        return self.create_in_parts(name, iter((data,)))

    def create_in_parts(self, name: str, parts: Iterator[bytes]) -> bool:
        path = self.path(name)
        if self.filesystem.get_file_info(path).type != pyarrow.fs.FileType.NotFound:
            return False
        if not self.creates_if_absent:
            raise error_of(
                "CLEANCUT_OBJECT_STORE_UNSAFE",
                location=self.root,
                finding=f"a rename of {self.filesystem.type_name}: replaces an existing file, so"
                " two writers could both create one object; nothing was written",
                advice="Use s3://bucket/prefix, a local disk, or HDFS. Checkpoints there can be"
                " read.",
            )
        directory, _, base = path.rpartition("/")
        # Readers ignore names with this prefix.
        written = f"{directory}/.{base}.{uuid4().hex}"
        try:
            with self._opened(written, directory) as file:
                for part in parts:
                    file.write(part)
            return self._named(written, path)
        finally:
            self._delete(written)

    def _opened(self, path: str, directory: str) -> pyarrow.NativeFile:
        for _ in range(_ATTEMPTS):
            self.filesystem.create_dir(directory)
            # A concurrent delete of the last file of a directory removes the directory.
            with suppress(FileNotFoundError):
                return self.filesystem.open_output_stream(path)
        return self.filesystem.open_output_stream(path)

    def _named(self, written: str, path: str) -> bool:
        if isinstance(self.filesystem, pyarrow.fs.LocalFileSystem):
            try:
                os.link(written, path)
            except FileExistsError:
                return False
        else:
            # HDFS refuses to rename to a file that was created meanwhile.
            self.filesystem.move(written, path)
        return True

    def delete(self, name: str) -> None:
        path = self.path(name)
        self._delete(path)
        # Epochs have their own directories. On other file systems a rmdir is recursive.
        if isinstance(self.filesystem, pyarrow.fs.LocalFileSystem) and name.count("/") > 1:
            with suppress(OSError):
                os.rmdir(path.rpartition("/")[0])  # noqa: PTH106

    def hold(self, below: str, names: Collection[str]) -> None:
        """Creates these directories in a directory, and removes other empty ones."""
        for name in names:
            self.filesystem.create_dir(self.path(f"{below}/{name}"))
        selector = pyarrow.fs.FileSelector(self.path(below), allow_not_found=True)
        for info in self.filesystem.get_file_info(selector):
            is_other = info.type == pyarrow.fs.FileType.Directory and info.base_name not in names
            if is_other and not self.list(f"{below}/{info.base_name}"):
                self.filesystem.delete_dir(info.path)

    def _delete(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self.filesystem.delete_file(path)
