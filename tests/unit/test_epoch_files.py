"""Names, manifests and owners of `EpochFiles`, and the refusal of invalid ones."""

import dataclasses
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from cleancut import CorruptedError, FencedError, RequestError
from cleancut._query import sealing
from cleancut._storage import directory as storage
from cleancut._storage.access import S3Access
from cleancut.errors import CleancutError
from cleancut.sinks import EpochFiles
from cleancut.sinks._core.batch import batch_of
from cleancut.sinks._core.expected import EpochRanges, Expected
from cleancut.sinks._core.lineage import Origin
from cleancut.sinks._core.query_side import Operation
from cleancut.sinks._epoch_log.checkpoints import begin_checkpoint
from cleancut.sinks._epoch_log.manifest import DataFile, Manifest, Owner
from cleancut.sinks._epoch_log.names import (
    OWNER,
    Attempt,
    attempts,
    hidden_name,
    manifest_epochs,
    manifest_name,
    operation_name,
    undone_epochs,
)
from cleancut.sinks._epoch_log.records import PlainRecords
from cleancut.sinks._epoch_log.retention import published_epochs
from cleancut.sinks._epoch_log.rollback import follow, forget
from cleancut.sinks._epoch_log.view import manifests_after, visible_manifests
from cleancut.sinks._files.directory import SinkDirectory
from cleancut.sinks._files.publisher import Output, Publisher
from tests.support.draws import draws
from tests.unit.s3_server import BUCKET, s3_server
from tests.unit.sink_records import BATCH, MANIFEST, TOKEN, Directory, data, manifest
from tests.unit.sink_steps import Side


def test_names_of_manifests_are_in_the_order_of_epochs() -> None:
    draw = random.Random(3)
    epochs = sorted({draw.randrange(10 ** draw.randrange(1, 19)) for _ in range(200)})
    names = [manifest_name(epoch).removeprefix("_epochs/") for epoch in epochs]
    assert names == sorted(names)
    others = ["7.json", f"{7:020d}.json.tmp", f".{7:020d}.json", "_query.json"]
    assert manifest_epochs([*reversed(names), *others]) == epochs


def test_attempts_are_found_by_their_directories() -> None:
    attempt = Attempt(7, TOKEN)
    name = attempt.directory.removeprefix("_files/")
    assert name == f"cleancut_attempt={7:020d}-{TOKEN}"
    others = ["cleancut_attempt=7-ab", f"{name}x", f".{name}", "_temporary"]
    assert list(attempts([*others, name])) == [attempt]


def test_a_manifest_lists_the_published_files() -> None:
    body = MANIFEST.encode()
    assert Manifest.decode(body, "p", 7) == MANIFEST
    fields = json.loads(body)
    assert (fields["formatVersion"], fields["epoch"], fields["rows"]) == (1, 7, 3)
    assert fields["files"][0] == {"name": "_files/x/k=ä/part-0.parquet", "bytes": 512}
    assert fields["schema"] == {"type": "struct", "fields": []}
    owner = Owner("q-1", "file:/ckpt")
    assert Owner.decode(owner.encode(), "p") == owner


def broken() -> Iterator[tuple[str, bytes]]:
    whole = json.loads(MANIFEST.encode())
    for name in whole:
        yield f"{name} is missing", _body({k: v for k, v in whole.items() if k != name})
        yield f"{name} is not of type", _body(whole | {name: {} if name != "schema" else 1})
    yield "name is missing", _body(whole | {"files": [{"bytes": 1}]})
    yield "no attribute", _body(whole | {"files": ["part"]})
    yield "it is that of epoch 8", _body(whole | {"epoch": 8})
    yield "not a JSON object", b"[]"
    yield "Unterminated", MANIFEST.encode()[:20]
    yield "decode", b"\xff\xfe\xfd"
    yield "Expecting value", b""


def _body(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode()


@pytest.mark.parametrize(("detail", "body"), list(broken()))
def test_an_incomplete_manifest_is_corrupted(detail: str, body: bytes) -> None:
    with pytest.raises(CorruptedError, match="file:/sink/_epochs/7") as raised:
        Manifest.decode(body, "file:/sink/_epochs/7", 7)
    assert raised.value.error_id == "CLEANCUT_SINK_CORRUPTED"
    assert detail in str(raised.value)


@pytest.mark.parametrize(
    "decode", [lambda body: Manifest.decode(body, "p", 7), lambda body: Owner.decode(body, "p")]
)
def test_a_later_format_is_refused(decode: Callable[[bytes], object]) -> None:
    with pytest.raises(RequestError) as raised:
        decode(b'{"formatVersion":3,"anything":1}')
    assert raised.value.error_id == "CLEANCUT_FORMAT_UNKNOWN"
    assert raised.value.params["found"] == "3"


def refusal(check: Callable[[], object]) -> CleancutError:
    with pytest.raises(RequestError) as raised:
        check()
    return raised.value


def test_the_same_input_of_the_same_query_is_the_same_epoch() -> None:
    """In any run: if a driver dies after its manifest, the next run sees the same epoch."""
    MANIFEST.check(BATCH, "file:/sink")
    Owner("q-1", "file:/moved").check(BATCH, "file:/sink")


def test_another_query_is_refused_by_both_names() -> None:
    other = dataclasses.replace(BATCH, query_id="q-2")
    for check in (MANIFEST.check, Owner("q-1", "file:/ckpt-1").check):
        error = refusal(lambda check=check: check(other, "file:/sink"))  # type: ignore[misc]
        assert error.error_id == "CLEANCUT_SINK_OWNER_MISMATCH"
        assert "q-1" in str(error)
        assert "q-2 with the checkpoint file:/ckpt" in str(error)
        assert "file:/sink" in str(error)


def test_an_epoch_with_other_input_is_refused_with_its_run() -> None:
    set_back = dataclasses.replace(BATCH, planned_ms=1_900)
    error = refusal(lambda: MANIFEST.check(set_back, "file:/sink"))
    assert error.error_id == "CLEANCUT_SINK_EPOCH_CONFLICT"
    assert all(fact in str(error) for fact in ("Epoch 7", "r-1", "1700", "1900", "file:/sink"))


def test_rows_outside_of_a_query_are_refused() -> None:
    rows: Any = object()
    assert refusal(lambda: batch_of(rows, 3)).error_id == "CLEANCUT_SEAL_BATCH_INVALID"


def publishing(directory: Directory) -> Publisher:
    fake: Any = directory
    return Publisher(fake, Output("parquet", (), {}))


def test_unpublished_files_are_deleted_up_to_the_epoch() -> None:
    published = {epoch: manifest(epoch, "a") for epoch in (2, 3, 4)}
    kept = [data(epoch, "a") for epoch in (2, 3, 4)]
    later = data(6, "e")
    directory = Directory(
        *kept,
        # Files of an unpublished epoch, of another attempt, of the epoch itself, and of later
        # epochs.
        *(data(1, "b"), data(3, "c"), data(4, "d"), data(5, "b"), later),
        manifests=tuple(published.values()),
    )
    run = publishing(directory)
    run.check(dataclasses.replace(BATCH, epoch=4))
    directory.files_read.clear()
    run.clean_up(4)
    left = [name for name in directory.present if name.startswith("_files")]
    assert left == [*kept, data(5, "b"), later]
    assert directory.files_read == [manifest_name(3)]
    run.clean_up(5)
    assert later in directory.present
    run.clean_up(6)
    assert later not in directory.present
    assert directory.files_read == [manifest_name(3)]


def test_files_of_hidden_epochs_remain() -> None:
    hidden = manifest(3, "c")
    directory = Directory(data(3, "c"), data(4, "a"), manifests=(manifest(4, "a"),))
    assert directory.create(hidden_name(hidden.attempt), hidden.encode())
    run = publishing(directory)
    run.check(dataclasses.replace(BATCH, epoch=4))
    run.clean_up(4)
    assert {data(3, "c"), data(4, "a")} <= directory.present.keys()


def test_a_run_that_a_continuing_checkpoint_has_followed_publishes_nothing() -> None:
    directory = Directory(data(7, "a"))
    run = publishing(directory)
    run._move = begin_checkpoint(cast(Any, directory), BATCH, Expected())
    lineage = (Origin("/ckpt", 4, epoch=7),)
    moved = dataclasses.replace(BATCH, run_id="r-3", checkpoint="/moved", lineage=lineage)
    begin_checkpoint(cast(Any, directory), moved, Expected())
    with pytest.raises(FencedError, match="a run with the checkpoint /moved"):
        run.publish(manifest(7, "a"), BATCH)
    assert manifest_name(7) not in directory.present


@pytest.mark.parametrize("has_owner", [False, True], ids=["empty", "owned"])
def test_a_run_is_refused_if_its_target_lacks_published_epochs(has_owner: bool) -> None:
    directory = Directory(manifests=(manifest(3, "a"),) if has_owner else ())
    if has_owner:
        directory.create(OWNER, Owner("q-1", "file:/ckpt").encode())
    before = dict(directory.present)
    expected = Expected(EpochRanges.of([3, 4, 5, 6]))
    error = refusal(lambda: publishing(directory).follow(Side([], batch=BATCH), expected))
    assert error.error_id == "CLEANCUT_SINK_EPOCHS_LOST"
    assert f"epochs {4 if has_owner else 3} to 6" in str(error)
    assert directory.present == before


def test_epochs_that_are_lost_while_a_query_runs_stop_it() -> None:
    directory = Directory(data(7, "a"), data(8, "b"), manifests=(manifest(7, "a"),))
    run = publishing(directory)
    assert run.check(BATCH) == manifest(7, "a")
    directory.delete(manifest_name(7))
    error = refusal(
        lambda: run.publish(manifest(8, "b"), dataclasses.replace(BATCH, epoch=8, planned_ms=1_900))
    )
    assert error.error_id == "CLEANCUT_SINK_EPOCHS_LOST"
    assert manifest_name(8) not in directory.present


class Watched(Directory):
    """Lists the manifests that it deletes; `before` is called with each name to create or read."""

    def __init__(self, *epochs: int) -> None:
        super().__init__(manifests=tuple(manifest(epoch, "a") for epoch in epochs))
        self.deleted: list[int] = []
        self.before: Callable[[str], None] = lambda _: None

    def create(self, name: str, body: bytes) -> bool:
        self.before(name)
        return super().create(name, body)

    def read(self, name: str) -> bytes | None:
        self.before(name)
        return super().read(name)

    def delete(self, name: str) -> None:
        self.deleted += manifest_epochs([name.removeprefix("_epochs/")])
        super().delete(name)


def test_the_last_epoch_is_hidden_first() -> None:
    directory: Any = Watched(0, 1, 2, 3, 4)
    follow(directory, QueryOperations([Operation(6, 1)]))
    assert directory.deleted == [4, 3, 2]


def test_an_epoch_that_an_older_run_publishes_meanwhile_is_hidden() -> None:
    directory: Any = Watched(0, 1, 2)

    def publish(name: str) -> None:
        if name == operation_name(6):
            late = manifest(3, "b")
            directory.present[manifest_name(3)] = late.encode()

    directory.before = publish
    follow(directory, QueryOperations([Operation(6, 1)]))
    assert directory.deleted == [3, 2]


def test_forgotten_epochs_are_recorded_as_undone() -> None:
    directory: Any = Watched(0, 1, 2)
    follow(directory, QueryOperations([Operation(6, 1)]))
    assert forget(directory) == 1
    assert undone_epochs(directory.names("_undone")) == {2}


def test_epochs_that_are_hidden_meanwhile_are_not_read() -> None:
    directory: Any = Watched(0, 1, 2, 3)

    def hide_epochs(name: str) -> None:
        if name == manifest_name(3):
            for epoch in (3, 2):
                directory.present.pop(manifest_name(epoch), None)

    directory.before = hide_epochs
    assert [read.epoch for read in manifests_after(directory, -1)] == [0, 1]


def test_an_epoch_without_rows_keeps_no_directory() -> None:
    empty = manifest(4, "a", files=0)
    directory = Directory(data(4, "a"), manifests=(empty,))
    run = publishing(directory)
    assert run.check(dataclasses.replace(BATCH, epoch=4)) == empty
    run.clean_up(4)
    assert not any(name.startswith("_files") for name in directory.present)


def test_the_second_of_two_publishing_runs_follows_the_first() -> None:
    first, second = manifest(7, "a"), manifest(7, "b")
    directory = Directory(data(7, "a"), data(7, "b"))
    assert publishing(directory).publish(first, BATCH) == first
    assert publishing(directory).publish(second, BATCH) == first
    assert data(7, "a") in directory.present
    assert data(7, "b") not in directory.present
    assert Owner.decode(directory.present["_query.json"], "p") == Owner("q-1", "file:/ckpt")


def test_the_second_of_two_concurrent_queries_is_refused() -> None:
    directory = Directory()
    mine, others = publishing(directory), publishing(directory)
    other = dataclasses.replace(BATCH, query_id="q-2", epoch=9)
    assert mine.check(BATCH) is None
    assert others.check(other) is None
    mine.publish(manifest(7, "a"), BATCH)
    staged = manifest(9, "b")
    assert refusal(lambda: others.publish(staged, other)).error_id == "CLEANCUT_SINK_OWNER_MISMATCH"
    assert manifest_name(9) not in directory.present


def test_the_next_run_finds_the_staged_files_of_a_sealed_epoch() -> None:
    staged = manifest(7, "a", files=2)
    names = [file.name for file in staged.files]
    run = publishing(Directory(*names, data(7, "b")))
    handle = staged.encode().decode()
    assert run.is_usable(handle, None)
    assert run.publish(staged, BATCH) == staged
    assert run.is_usable(handle, handle)
    empty = manifest(7, "c", files=0)
    assert publishing(Directory()).is_usable(empty.encode().decode(), None)


def test_incomplete_or_replaced_staged_files_are_not_the_epoch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    staged = manifest(7, "a", files=2)
    handle = staged.encode().decode()
    names = [file.name for file in staged.files]
    for left in ([], names[:1], [data(7, "b")]):
        assert not publishing(Directory(*left)).is_usable(handle, None)
    assert len(caplog.messages) == 3
    assert staged.attempt.directory in caplog.messages[0]
    whole = publishing(Directory(*names))
    assert not whole.is_usable(handle, manifest(7, "b").encode().decode())
    with pytest.raises(CorruptedError, match="mem:/sink"):
        whole.is_usable("{", None)


def test_a_lost_response_deletes_nothing() -> None:
    """The manifest may exist, and then it references the files."""

    class LostResponse(Directory):
        def create(self, name: str, body: bytes) -> bool:
            made = super().create(name, body)
            if name.startswith("_epochs"):
                raise OSError("the response was lost")
            return made

    directory = LostResponse(data(7, "a"), "_query.json")
    directory.present["_query.json"] = Owner("q-1", "file:/ckpt").encode()
    run = publishing(directory)
    assert run.check(BATCH) is None
    with pytest.raises(OSError, match="lost"):
        run.publish(manifest(7, "a"), BATCH)
    assert data(7, "a") in directory.present
    assert run.check(BATCH) == manifest(7, "a")


def test_a_deleted_manifest_is_corruption_and_no_epoch() -> None:
    class DeletedManifest(Directory):
        def create(self, name: str, body: bytes) -> bool:
            return False

    with pytest.raises(CorruptedError) as raised:
        publishing(DeletedManifest()).publish(manifest(7, "a"), BATCH)
    assert raised.value.error_id == "CLEANCUT_SINK_CORRUPTED"


def test_unpublished_epochs_are_named() -> None:
    published = tuple(manifest(epoch, "a") for epoch in (3, 1, 2))
    directory: Any = Directory(manifests=published)
    assert [published.epoch for published in published_epochs(directory)] == [1, 2, 3]
    assert [published.epoch for published in visible_manifests(directory, -1, (3, 1, 3))] == [1, 3]
    with pytest.raises(RequestError, match=r"mem:/sink: 0, 9\.") as raised:
        visible_manifests(directory, -1, [9, 2, 0])
    assert raised.value.error_id == "CLEANCUT_SINK_EPOCHS_MISSING"


def test_paths_are_those_of_published_epochs_and_need_no_jvm(tmp_path: Path) -> None:
    sink = tmp_path / "a [sink]"
    published = [manifest(epoch, "a", files=2) for epoch in (1, 2, 12)]
    for one in published:
        for name in (manifest_name(one.epoch), *(file.name for file in one.files)):
            (sink / name).parent.mkdir(parents=True, exist_ok=True)
            (sink / name).write_bytes(one.encode())
    (sink / data(3, "b")).parent.mkdir()
    (sink / data(3, "b")).write_bytes(b"of no epoch")
    wanted = [str(sink / file.name) for one in published for file in one.files]
    assert EpochFiles(sink).paths() == wanted
    assert EpochFiles(sink.as_uri()).paths([12, 1]) == [*wanted[:2], *wanted[4:]]
    assert EpochFiles(tmp_path / "nothing").paths() == []
    with pytest.raises(RequestError) as raised:
        EpochFiles(sink).paths([3])
    assert raised.value.error_id == "CLEANCUT_SINK_EPOCHS_MISSING"


@pytest.mark.parametrize("prefix", ["", "lake/counts"])
def test_paths_in_a_bucket(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "access")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    one = manifest(7, "a", files=2)
    with s3_server() as server:
        name = f"{prefix}/{manifest_name(7)}".lstrip("/")
        server.client.put_object(Bucket=BUCKET, Key=name, Body=one.encode())
        location = f"s3://{BUCKET}/{prefix}".rstrip("/")
        paths = EpochFiles(location).paths(endpoint=server.endpoint)
    assert paths == [f"{location}/{file.name}" for file in one.files]


@pytest.mark.parametrize(
    "ask",
    [
        lambda session: SinkDirectory(session, "/sink"),
        lambda session: sealing.seal(batch_in(session), 0),
    ],
)
def test_a_session_without_the_jar_is_refused(ask: Callable[[Any], object]) -> None:
    from py4j.java_gateway import JavaPackage

    class Absent(JavaPackage):  # type: ignore[misc]
        """The object that py4j returns for an unknown class."""

        def __getattr__(self, name: str) -> "Absent":
            return self

    class Session:
        _jvm = Absent.__new__(Absent)

    with pytest.raises(RequestError) as raised:
        ask(Session())
    assert raised.value.error_id == "CLEANCUT_JAR_NOT_LOADED"
    assert "paths()" in str(raised.value)


def batch_in(session: Any) -> Any:
    return type("Batch", (), {"_jdf": object(), "sparkSession": session})()


def published(tmp_path: Path, epochs: int) -> EpochFiles:
    """Creates a sink with this number of epochs, each with one file."""
    for epoch in range(epochs):
        attempt = Attempt(epoch, f"{epoch:032x}")
        file = DataFile(f"{attempt.directory}/part-0.parquet", 1)
        manifest = dataclasses.replace(MANIFEST, attempt=attempt, files=(file,), partition_by=())
        place = tmp_path / manifest_name(epoch)
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(manifest.encode())
    return EpochFiles(tmp_path)


def seen(tmp_path: Path) -> list[int]:
    return manifest_epochs(path.name for path in (tmp_path / "_epochs").iterdir())


def test_hidden_epochs_are_unhidden_or_deleted(tmp_path: Path) -> None:
    sink = published(tmp_path, 6)
    whole = sink.paths()
    assert [manifest.epoch for manifest in sink.hide_epochs(2)] == [3, 4, 5]
    assert seen(tmp_path) == [0, 1, 2]
    assert sink.paths() == whole[:3]
    assert sink.hide_epochs(2) == []
    assert [manifest.epoch for manifest in sink.unhide_epochs()] == [3, 4, 5]
    assert sink.paths() == whole
    assert sink.unhide_epochs() == []
    sink.hide_epochs(-1)
    assert seen(tmp_path) == []
    # An epoch that was published again is kept, and hides the earlier one.
    again = dataclasses.replace(MANIFEST, attempt=Attempt(4, "f" * 32), files=())
    (tmp_path / manifest_name(4)).write_bytes(again.encode())
    assert [manifest.epoch for manifest in sink.unhide_epochs()] == [0, 1, 2, 3, 5]
    assert (tmp_path / manifest_name(4)).read_bytes() == again.encode()
    assert sink.delete_hidden_epochs() == 1
    assert sink.delete_hidden_epochs() == 0


def test_an_unreadable_manifest_is_not_hidden(tmp_path: Path) -> None:
    sink = published(tmp_path, 4)
    (tmp_path / manifest_name(3)).write_bytes(b"{")
    with pytest.raises(CorruptedError):
        sink.hide_epochs(1)
    assert seen(tmp_path) == [0, 1, 2, 3]


@pytest.mark.parametrize("step", range(8))
def test_a_crash_while_hiding_epochs_leaves_the_first_ones(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = published(tmp_path, 5)
    left = [step]

    def crash_in(method: str) -> Callable[..., Any]:
        real = getattr(storage.Directory, method)

        def change(*args: Any) -> Any:
            if left[0] == 0:
                raise KeyboardInterrupt
            left[0] -= 1
            return real(*args)

        return change

    with monkeypatch.context() as patch:
        for method in ("create", "delete"):
            patch.setattr(storage.Directory, method, crash_in(method))
        with pytest.raises(KeyboardInterrupt):
            sink.hide_epochs(0)
    assert seen(tmp_path) == list(range(len(seen(tmp_path))))
    sink.hide_epochs(0)
    assert seen(tmp_path) == [0]
    assert [manifest.epoch for manifest in sink.unhide_epochs()] == [1, 2, 3, 4]


class QueryOperations:
    """Implements `OperationSource`."""

    def __init__(self, operations: list[Operation]) -> None:
        self._operations = operations

    def operations(self, after: int) -> list[Operation]:
        return [act for act in self._operations if act.epoch > after]


def test_readers_see_the_epochs_that_count_after_any_rollback(
    tmp_path: Path,
) -> None:
    for seed in range(draws(150)):
        draw = random.Random(seed)
        place = tmp_path / str(seed)
        place.mkdir()
        records = PlainRecords(str(place), S3Access())
        operations: list[Operation] = []
        # The history after each epoch and operation of the query: its epochs up to then.
        lines: dict[int, list[int]] = {-1: []}
        last = -1
        for _ in range(draw.randrange(2, 6)):
            line = lines[last]
            for _ in range(draw.randrange(4)):
                last += 1
                line = [*line, last]
                lines[last] = line
                manifest = dataclasses.replace(
                    MANIFEST, attempt=Attempt(last, f"{last:032x}"), files=(), partition_by=()
                )
                assert records.create(manifest_name(last), manifest.encode())
            # A rollback uses up a number and takes the next one; a rescale takes one.
            source = draw.choice([line for line in lines if line >= 0] or [-1])
            if source < 0:
                continue
            is_rollback = draw.random() < 0.8
            source = source if is_rollback else last
            last += 2 if is_rollback else 1
            operations.append(Operation(last, source))
            lines[last] = lines[source]
            follow(records, QueryOperations(operations))
            assert manifest_epochs(records.names("_epochs")) == lines[last], (seed, operations)
            if is_rollback and draw.random() < 0.5:
                # An older run publishes the epoch that it had sealed.
                late = dataclasses.replace(
                    MANIFEST, attempt=Attempt(last - 1, "f" * 32), files=(), partition_by=()
                )
                batch = dataclasses.replace(BATCH, epoch=last - 1, planned_ms=late.planned_ms)
                records.create("_query.json", Owner(late.query_id, "c").encode())
                if draw.random() < 0.5:
                    run = Publisher(cast(Any, records), Output("parquet", (), {}))
                    run._has_published = True
                    with pytest.raises(FencedError):
                        run.publish(late, batch)
                else:
                    # The driver dies before it reads the operations.
                    assert records.create(manifest_name(last - 1), late.encode())
                follow(records, QueryOperations(operations))
                assert manifest_epochs(records.names("_epochs")) == lines[last], (seed, operations)


def test_a_late_manifest_is_invisible_after_a_rollback(tmp_path: Path) -> None:
    """A request that was retried for long arrives when no run is left to hide its epoch."""
    records = PlainRecords(str(tmp_path), S3Access())
    sink = published(tmp_path, 4)
    before = sink.paths()
    follow(records, QueryOperations([Operation(6, 1)]))
    assert sink.paths() == before[:2]
    published(tmp_path, 6)
    assert sink.paths() == before[:2]
    with pytest.raises(RequestError, match="CLEANCUT_SINK_EPOCHS_MISSING"):
        sink.paths([5])
    assert [manifest.epoch for manifest in sink.hide_epochs(0)] == [1]
    assert [manifest.epoch for manifest in sink.unhide_epochs()] == [1, 2, 3]
    # The next run decides again.
    follow(records, QueryOperations([Operation(6, 1)]))
    assert sink.paths() == before[:2]


@pytest.mark.parametrize("step", range(14))
def test_a_reader_sees_consecutive_epochs_during_a_rollback(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = PlainRecords(str(tmp_path), S3Access())
    sink = published(tmp_path, 6)
    steps = [0]

    def between(method: str) -> Callable[..., Any]:
        real = getattr(storage.Directory, method)

        def change(*args: Any) -> Any:
            steps[0] += 1
            if steps[0] == step + 1:
                follow(records, QueryOperations([Operation(7, 1)]))
            return real(*args)

        return change

    def one_by_one(function: Callable[[int], Any], epochs: list[int]) -> list[Any]:
        # Of concurrent requests, any may be the first.
        results = {epoch: function(epoch) for epoch in reversed(epochs)}
        return [results[epoch] for epoch in epochs]

    with monkeypatch.context() as patch:
        patch.setattr("cleancut.sinks._epoch_log.view.mapped", one_by_one)
        for method in ("read", "list"):
            patch.setattr(storage.Directory, method, between(method))
        epochs_read = [int(path.split("=")[1][:20]) for path in sink.paths()]
    assert epochs_read in ([0, 1], list(range(6)))
    assert [published.epoch for published in published_epochs(records)] == (
        [0, 1] if steps[0] > step else epochs_read
    )
