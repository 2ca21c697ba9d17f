"""Objects as files of a directory, on any file system that pyarrow knows."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow.fs


@dataclass(frozen=True)
class Directory:
    """Implements `Objects`.

    Attributes:
        filesystem: where the directory lies.
        root: its path on that file system.
    """

    filesystem: pyarrow.fs.FileSystem
    root: str

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def above(self) -> "Directory":
        return Directory(self.filesystem, self.root.rpartition("/")[0])

    def list(self, below: str) -> Mapping[str, int]:
        selector = pyarrow.fs.FileSelector(self.path(below), recursive=True, allow_not_found=True)
        return {
            info.path.removeprefix(f"{self.root}/"): info.size
            for info in self.filesystem.get_file_info(selector)
            if info.is_file
        }

    def read(self, name: str) -> bytes:
        with self.filesystem.open_input_file(self.path(name)) as file:
            return bytes(file.readall())

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        with self.filesystem.open_input_file(self.path(name)) as file:
            # Beyond the end pyarrow raises or reads nothing, by the file system.
            available = max(0, min(length, file.size() - offset))
            return bytes(file.read_at(available, offset)) if available else b""

    def create(self, name: str, data: bytes) -> bool:
        path = self.path(name)
        if self.filesystem.get_file_info(path).type != pyarrow.fs.FileType.NotFound:
            return False
        with self.filesystem.open_output_stream(path) as file:
            file.write(data)
        return True
