"""Snapshots that reference others, as operations write them: reads, verification and expiry."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from math import gcd
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cleancut import Checkpoint, RequestError
from cleancut._checkpoint.read.cut_reader import CutReader
from cleancut._checkpoint.read.referring_snapshot import wanted
from cleancut._checkpoint.read.root import open_root
from cleancut._checkpoint.retain import expiry
from cleancut._checkpoint.retain.expiry import _MARGIN_EPOCHS
from cleancut._cli import main as _cli
from cleancut._format.frame.identity import Family, Identity, Spread
from cleancut._format.layout import FrameName, StoreId
from cleancut._unsafe_rows.column_cells import MisfitError
from cleancut._unsafe_rows.encoder import cells_of, encoded
from cleancut._unsafe_rows.schema import struct_of
from cleancut._unsafe_rows.spread import partition_of
from cleancut._unsafe_rows.stored_cells import stored_cells
from cleancut.errors import error_of
from tests.unit.checkpoint_files import CheckpointFiles
from tests.unit.cut_files import CutFiles
from tests.vectors.cut_writer import Stored
from tests.vectors.frame_cases import KEY, VALUE, put
from tests.vectors.frame_encoder import Change
from tests.vectors.referring_cases import referring
from tests.vectors.segment_cases import flipped

PEOPLE = [put(number, f"person-{number}", number, number / 2) for number in range(1, 41)]
NAME = {"name": "name", "type": "string"}
LIST = {"type": "array", "elementType": "long", "containsNull": False}
MORE = [put(number, f"person-{number}", -number, 0.5) for number in range(31, 51)]


def place(change: Change, partitions: int) -> int:
    """Returns the partition to which Spark sends a row; test vectors verify the hash."""
    return partition_of(stored_cells(struct_of(KEY, "key"), change.key), partitions)


def rows_of(rows: Sequence[Change], partition: int, partitions: int) -> list[Change]:
    return [row for row in rows if place(row, partitions) == partition]


class RescaledFiles(CutFiles):
    """A checkpoint whose rows are partitioned like Spark's, and operations that repartition it."""

    partitions = 2

    def __init__(self, files: CheckpointFiles) -> None:
        super().__init__(files)
        self.rows: dict[bytes, Change] = {}
        self.referred: list[dict[str, Any]] = []

    def page_epochs(self, epoch: int) -> dict[int, int]:
        """Each cut has pages of its epoch, because stores are added and removed."""
        return {0: epoch} | ({1: epoch} if 1 in self.at[epoch] else {})

    def window(self, epoch: int) -> list[dict[str, Any]]:
        return []

    def put(self, rows: Sequence[Change]) -> None:
        """Commits an epoch with these rows in their partitions."""
        self.rows |= {row.key: row for row in rows}
        there = [*self.rows.values()]
        counts = [len(rows_of(there, at, self.partitions)) for at in range(self.partitions)]
        changes = [rows_of(rows, at, self.partitions) for at in range(self.partitions)]
        self.commit(*zip(changes, counts, strict=True), referred=self.referred)

    def rescale(self, partitions: int) -> list[Stored]:
        """Repartitions the state by reference, or repeats the current partitioning."""
        before, self.partitions = self.partitions, partitions
        shared = gcd(before, partitions)
        frames = []
        for at in range(partitions):
            froms = range(at % shared, before, shared)
            keys = {"default": [[0], [1]]}
            spread = {"partitions": partitions, "sourcePartitions": shared, "keys": keys}
            frames.append(
                referring(
                    self.epoch + 1,
                    [self.chains[source] for source in froms],
                    partition=at,
                    spread=spread if partitions > shared else None,
                )
            )
        chains = [*self.chains.values()]
        segments = {frame.segment for chain in chains for frame in chain}
        segments |= {name for reference in self.referred for name in reference["segments"]}
        self.referred = [*self.referred]
        self.referred.append({"version": self.epoch + 1, "segments": sorted(segments)})
        stored = self.segment(self.epoch, frames)
        self.chains = {at: [frame] for at, frame in enumerate(stored)}
        self.cut(self.epoch, referred=self.referred)
        self.epoch += 1
        return stored

    def bases(self) -> None:
        """Gives each store its own snapshot."""
        for at in range(self.partitions):
            self.base(at, rows_of([*self.rows.values()], at, self.partitions), number=3 + at)
        self.referred = []
        self.put([])


def own_and_end(rescaled: RescaledFiles, generation: int) -> None:
    rescaled.write(f"owners/{generation:020d}.json", b"{}")
    rescaled.write(f"owners/{generation:020d}.ended", b"{}")


@pytest.fixture
def rescaled(files: CheckpointFiles) -> RescaledFiles:
    """Two epochs that insert all people."""
    made = RescaledFiles(files)
    made.put(PEOPLE[:25])
    made.put(PEOPLE[25:])
    return made


def rows(table: pa.Table) -> list[dict[str, Any]]:
    selected = table.select(["key", "value"]).to_pylist()
    return sorted(selected, key=lambda row: int(row["key"]["id"]))


def ways(rescaled: RescaledFiles) -> Iterator[Checkpoint]:
    """Yields the state by reference: immediately, after an epoch, and after more rescaled."""
    for partitions in (4, 6, 5, 1, 3):
        rescaled.rescale(partitions)
        yield Checkpoint(rescaled.location)
        rescaled.put([])
        yield Checkpoint(rescaled.location)


def test_all_rows_are_present_for_any_references(rescaled: RescaledFiles) -> None:
    before = Checkpoint(rescaled.location)
    wanted, digest = rows(before.state(0)), before.test_restore(read_only=True).digest
    assert len(wanted) == len(PEOPLE)
    for there in ways(rescaled):
        assert rows(there.state(0)) == wanted
        assert there.test_restore(read_only=True).digest == digest
        assert [(family.name, family.keys) for family in there.families(0)] == [
            ("default", len(PEOPLE))
        ]
        places = there.state(0).select(["partition"]).to_pylist()
        expected = {place(change, rescaled.partitions) for change in PEOPLE}
        assert {row["partition"] for row in places} == expected
        assert there.verify().ok, there.verify()


@pytest.mark.parametrize("before", range(1, 10))
def test_the_partitions_have_their_rows_at_any_ratio(files: CheckpointFiles, before: int) -> None:
    rescaled = RescaledFiles(files)
    rescaled.put(PEOPLE[:25])
    for partitions in range(1, 10):
        rescaled.rescale(before)
        rescaled.bases()
        rescaled.put(PEOPLE[25:])
        rescaled.rescale(partitions)
        table = Checkpoint(rescaled.location).state(0).select(["partition", "key"]).to_pylist()
        expected = [(place(change, partitions), n) for n, change in enumerate(PEOPLE, start=1)]
        assert sorted((row["partition"], row["key"]["id"]) for row in table) == sorted(expected)
        rescaled.bases()


def test_a_key_is_found_in_any_partition(rescaled: RescaledFiles) -> None:
    rescaled.rescale(6)
    rescaled.rescale(4)
    rescaled.put(MORE)
    there = Checkpoint(rescaled.location)
    by_id = {row["key"]["id"]: row for row in rows(there.state(0))}
    assert len(by_id) == 50
    for number in (1, 17, 30, 31, 50):
        table = there.lookup(0, {"id": number, "name": f"person-{number}"})
        assert table.select(["key", "value"]).to_pylist() == [by_id[number]]
    assert there.lookup(0, {"id": 51, "name": "person-51"}).num_rows == 0


def test_later_changes_override_referenced_rows(rescaled: RescaledFiles) -> None:
    rescaled.rescale(4)
    rescaled.put(MORE)
    counts = {
        row["key"]["id"]: row["value"]["count"]
        for row in rows(Checkpoint(rescaled.location).state(0))
    }
    assert counts == {n: n for n in range(1, 31)} | {n: -n for n in range(31, 51)}
    (diff,) = Checkpoint(rescaled.location).diff(1, 3)
    assert (diff.added, diff.changed, diff.removed) == (10, 10, 0)
    assert list(Checkpoint(rescaled.location).diff(1, 2)) == []


def test_sizes_include_referenced_frames(rescaled: RescaledFiles) -> None:
    (before,) = Checkpoint(rescaled.location).skew()
    rescaled.rescale(4)
    (after,) = Checkpoint(rescaled.location).skew()
    own_bytes = sum(chain[0].entry["length"] for chain in rescaled.chains.values())
    assert after.partitions == 4
    # Two stores share each source.
    assert 0 <= before.bytes + own_bytes - after.bytes <= 4
    rescaled.rescale(2)
    (again,) = Checkpoint(rescaled.location).skew()
    assert after.bytes < again.bytes < after.bytes + 2 * own_bytes


def test_referenced_bytes_are_reported_separately(
    rescaled: RescaledFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = Checkpoint(rescaled.location).cut()
    assert whole.referenced_bytes == 0
    assert "referred to" not in str(whole)
    rescaled.rescale(4)
    cut = Checkpoint(rescaled.location).cut()
    own_bytes = sum(chain[0].entry["length"] for chain in rescaled.chains.values())
    assert cut.info.bytes == own_bytes
    # Two stores divide each source.
    assert cut.referenced_bytes is not None
    assert 0 <= whole.info.bytes - cut.referenced_bytes <= 4
    assert cut.referenced_bytes == sum(store.referenced_bytes or 0 for store in cut.stores)
    stores = Checkpoint(rescaled.location).stores()
    assert [store.referenced_bytes for store in stores] == [
        store.referenced_bytes for store in cut.stores
    ]
    assert _cli.main(["show", str(rescaled.location)]) == 0
    assert re.search(rf"referred to +{cut.referenced_bytes} bytes", capsys.readouterr().out)
    assert _cli.main(["show", str(rescaled.location), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["referenced_bytes"] == cut.referenced_bytes
    assert f"{cut.referenced_bytes} bytes" in cut._repr_html_()
    # References to snapshots with references are followed.
    rescaled.rescale(2)
    again = Checkpoint(rescaled.location).cut()
    assert again.referenced_bytes is not None
    assert 0 <= whole.info.bytes + own_bytes - again.referenced_bytes <= 8
    rescaled.bases()
    assert Checkpoint(rescaled.location).cut().referenced_bytes == 0


def test_a_cut_with_corrupted_snapshots_is_shown(rescaled: RescaledFiles) -> None:
    (base, *_) = rescaled.rescale(4)
    rescaled.segment_path(base).unlink()
    cut = Checkpoint(rescaled.location).cut()
    assert cut.referenced_bytes is None
    assert "unknown" in str(cut)
    assert {store.referenced_bytes for store in Checkpoint(rescaled.location).stores()} == {None}


def test_a_snapshot_with_references_is_a_frame_without_rows(rescaled: RescaledFiles) -> None:
    rescaled.rescale(4)
    rescaled.put(MORE)
    base, delta = Checkpoint(rescaled.location).frames(0, 3)
    assert (base.kind, base.version, base.records, base.keys) == ("snapshot", 3, 0, 0)
    assert (delta.kind, delta.version, delta.parent_version) == ("changelog", 4, 3)
    assert delta.records > 0


def test_corruption_of_a_referenced_frame_is_named(rescaled: RescaledFiles) -> None:
    source = rescaled.chains[1][0]
    rescaled.rescale(4)
    rescaled.put([])
    at = source.entry["offset"] + source.entry["length"] // 2
    rescaled.change(rescaled.segment_path(source), lambda data: flipped(data, at))
    report = Checkpoint(rescaled.location).verify()
    (problem,) = report.problems
    assert Path(problem.object) == rescaled.segment_path(source)
    assert problem.error_id == "CLEANCUT_FRAME_CORRUPTED"
    assert problem.affects == (1, 2, 3, 4)
    rescaled.segment_path(source).unlink()
    report = Checkpoint(rescaled.location).verify()
    (problem,) = report.problems
    assert (Path(problem.object), problem.error_id) == (
        rescaled.segment_path(source),
        "CLEANCUT_FRAME_MISSING",
    )


def test_referenced_segments_are_kept_until_the_last_reference(rescaled: RescaledFiles) -> None:
    sources = {frame.segment for chain in rescaled.chains.values() for frame in chain}
    wanted = rows(Checkpoint(rescaled.location).state(0))

    def there() -> set[str]:
        return {name for name in sources if (rescaled.root / name).exists()}

    rescaled.rescale(4)
    rescaled.put([])
    Checkpoint(rescaled.location).expire(retain_last=1).apply()
    assert there() == sources
    assert rows(Checkpoint(rescaled.location).state(0)) == wanted
    assert Checkpoint(rescaled.location).verify().unreferenced == 0
    rescaled.savepoint("before", rescaled.epoch - 1)
    rescaled.bases()
    rescaled.put([])
    Checkpoint(rescaled.location).expire(retain_last=1).apply()
    assert there() == sources
    (rescaled.root / "savepoints" / "before.cut").unlink()
    Checkpoint(rescaled.location).collect_garbage().apply()
    assert there() == set()
    assert rows(Checkpoint(rescaled.location).state(0)) == wanted
    assert Checkpoint(rescaled.location).verify().ok


def test_an_expiry_stops_if_an_operation_has_begun(
    rescaled: RescaledFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operation may reference frames of a cut that it read after the expiry had listed
    references.
    """
    rescaled.put([])
    rescaled.bases()
    rescaled.put([])
    segments = sorted(rescaled.root.glob("segments/*/*"))
    delete = expiry._delete

    def begun(root: Any, names: Sequence[str]) -> None:
        delete(root, names)
        note = {"generation": 1, "runId": "r-5", "host": "h-1", "startedMs": 1_700_000_000_000}
        rescaled.write(f"owners/{1:020d}.json", json.dumps(note).encode())

    monkeypatch.setattr(expiry, "_delete", begun)
    plan = Checkpoint(rescaled.location).expire(retain_last=1)
    assert plan.segments > 0
    with pytest.raises(RequestError, match="has begun meanwhile") as raised:
        plan.apply()
    assert raised.value.error_id == "CLEANCUT_OPERATION_REFUSED"
    assert sorted(rescaled.root.glob("segments/*/*")) == segments


@pytest.mark.parametrize("passes", [1, 2])
def test_a_fenced_operation_may_still_commit_references_to_an_expired_cut(
    rescaled: RescaledFiles, passes: int
) -> None:
    """It checks for a later owner, pauses, and then writes its cut."""
    seen, of_then = dict(rescaled.chains), rescaled.epoch - 1
    rescaled.put([])
    rescaled.bases()
    for _ in range(_MARGIN_EPOCHS + 2):
        rescaled.put([])
    for part in rescaled.root.glob("*/*/*"):
        os.utime(part, (1, 1))
    note = {"generation": 1, "runId": "r-5", "host": "h-1", "startedMs": 1_700_000_000_000}
    rescaled.write(f"owners/{1:020d}.json", json.dumps(note).encode())
    wanted = rows(Checkpoint(rescaled.location).state(0))
    for _ in range(passes):
        done = Checkpoint(rescaled.location).expire(retain_last=1).apply(fence="it was killed")
    assert of_then not in [cut.epoch for cut in Checkpoint(rescaled.location).cuts()]
    assert done.segments == 0
    rescaled.chains = seen
    rescaled.rescale(4)
    assert Checkpoint(rescaled.location).verify().ok
    assert rows(Checkpoint(rescaled.location).state(0)) == wanted
    # A later run has ended and has written an epoch: the operation's cut exists now or never will.
    own_and_end(rescaled, 4)
    rescaled.put([])
    rescaled.bases()
    rescaled.put([])
    assert Checkpoint(rescaled.location).expire(retain_last=1).apply().segments > 0
    assert Checkpoint(rescaled.location).verify().unreferenced == 0


def test_a_state_with_unknown_key_encoding_is_refused_and_not_corrupted(
    rescaled: RescaledFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    rescaled.rescale(4)
    rescaled.put([])

    def unknown_partitions(*_: object) -> Any:
        raise error_of("CLEANCUT_COLUMN_UNREADABLE", column="key", type="map", reason="by no hash")

    monkeypatch.setattr("cleancut._checkpoint.read.referring_snapshot.wanted", unknown_partitions)
    there = Checkpoint(rescaled.location)
    assert there.verify().ok, there.verify()
    for read in (
        lambda: there.state(0),
        lambda: there.test_restore(read_only=True),
        lambda: there.families(0),
    ):
        with pytest.raises(RequestError, match="by no hash"):
            read()


def test_a_cut_names_the_segments_that_its_snapshots_reference(rescaled: RescaledFiles) -> None:
    sources = {frame.segment for chain in rescaled.chains.values() for frame in chain}
    rescaled.rescale(4)
    cut = CutReader(open_root(rescaled.location).objects).cut(rescaled.epoch - 1)
    assert sources <= cut.named()


def test_nested_columns_determine_the_partition_of_a_key() -> None:
    """For example keys of timers, maps and TTL, which contain the key of the group."""
    group = {"type": "struct", "fields": [{"name": "k", "type": "long"}, NAME]}
    entry = {"type": "struct", "fields": [{"name": "key", "type": group}, NAME]}
    key = {"fields": [{"name": "expiry", "type": "long"}, {"name": "entry", "type": entry}]}
    family = Family(3, "$ttl_map", key, VALUE, False, True, "unsaferow")
    identity = Identity(
        StoreId(0, 1, "default"),
        FrameName(3, "0" * 32, "base"),
        None,
        None,
        (),
        Spread(4, 1, {family.name: [[1, 0]]}),
    )
    is_wanted = wanted(identity, family)
    row = struct_of(key, "key")
    for number in range(64):
        inner = {"key": {"k": number, "name": f"n{number}"}, "name": f"other{number}"}
        raw = encoded(cells_of(row, {"expiry": 1000 + number, "entry": inner}, "key"))
        alone = struct_of(group, "key")
        expected = partition_of(cells_of(alone, inner["key"], "key"), 4)
        assert is_wanted(raw) == (expected == 1)


def test_a_key_in_another_encoding_is_refused() -> None:
    key = {"fields": [{"name": "k", "type": "long"}]}
    family = Family(0, "default", key, VALUE, False, False, "avro")
    name = FrameName(3, "0" * 32, "base")
    spread = Spread(4, 1, {"default": [[0]]})
    identity = Identity(StoreId(0, 1, "default"), name, None, None, (), spread)
    with pytest.raises(RequestError, match="rescaled by reference") as raised:
        wanted(identity, family)
    assert raised.value.error_id == "CLEANCUT_COLUMN_UNREADABLE"


@pytest.mark.parametrize("cut_to", range(0, 40, 4))
def test_a_truncated_nested_key_is_corrupted(cut_to: int) -> None:
    """A row with a list of two numbers: 16 bytes, and 32 after them."""
    row = struct_of({"fields": [{"name": "k", "type": LIST}]}, "key")
    raw = (0).to_bytes(8, "little") + (32 | 16 << 32).to_bytes(8, "little")
    raw += (2).to_bytes(8, "little") + (0).to_bytes(8, "little") + bytes(16)
    assert [cell.raw for cell in stored_cells(row, raw)[0].fields] == [bytes(8)] * 2
    with pytest.raises(MisfitError):
        stored_cells(row, raw[: len(raw) - 4 - cut_to])
