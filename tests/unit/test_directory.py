"""Creation of objects in directories if absent, on file systems with different guarantees."""

from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest

from cleancut import RequestError
from cleancut._storage.directory import Directory


def test_one_of_two_writers_creates_an_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second writer creates the object between the check and the link of the first."""
    directory = Directory(pyarrow.fs.LocalFileSystem(), str(tmp_path))
    opened = Directory._opened
    created: list[bool] = []

    def interleaved(self: Directory, path: str, parent: str) -> Any:
        monkeypatch.setattr(Directory, "_opened", opened)
        created.append(directory.create("vectors/7.json", b"second"))
        return opened(self, path, parent)

    monkeypatch.setattr(Directory, "_opened", interleaved)
    created.append(directory.create("vectors/7.json", b"first"))
    assert created == [True, False]
    assert directory.read("vectors/7.json") == b"second"


def test_a_file_system_whose_rename_replaces_files_is_read_only() -> None:
    files: Any = pyarrow.fs
    # Its move replaces an existing file, like that of Google Cloud Storage.
    replacing = files._MockFileSystem()
    replacing.create_dir("flow/vectors")
    with replacing.open_output_stream("flow/vectors/6.json") as file:
        file.write(b"there")
    directory = Directory(replacing, "flow")
    with pytest.raises(RequestError) as raised:
        directory.create("vectors/7.json", b"new")
    assert raised.value.error_id == "CLEANCUT_OBJECT_STORE_UNSAFE"
    assert "replaces" in str(raised.value)
    assert "s3://" in str(raised.value)
    assert directory.list("vectors") == {"vectors/6.json": 5}
    assert directory.read("vectors/6.json") == b"there"
    # An existing object is not created, and the call is not refused.
    assert not directory.create("vectors/6.json", b"new")


def test_google_cloud_storage_is_refused() -> None:
    try:
        bucket, path = pyarrow.fs.FileSystem.from_uri("gs://anonymous@bucket/flow")
    except (NotImplementedError, pyarrow.ArrowInvalid):
        pytest.skip("this build of pyarrow has no client")
    assert not Directory(bucket, path).creates_if_absent
