"""State whose bases refer to others, as acts leave it: read, checked, kept and given up."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cleancut import Checkpoint, RequestError
from cleancut._checkpoint.read.cut_reader import CutReader
from cleancut._checkpoint.read.referred import wanted
from cleancut._checkpoint.read.root import open_root
from cleancut._checkpoint.retain import expiry
from cleancut._checkpoint.retain.expiry import _MARGIN_EPOCHS
from cleancut._cli import main as _cli
from cleancut._format.frame.identity import Family, Identity, Spread
from cleancut._format.layout import FrameName, StoreId
from cleancut._unsafe_rows.column_cells import MisfitError
from cleancut._unsafe_rows.encoded import cells_of, encoded
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


def place(of: Change, partitions: int) -> int:
    """Where Spark puts a row; the test vectors hold this against Spark's own hash."""
    return partition_of(stored_cells(struct_of(KEY, "key"), of.key), partitions)


def own(rows: Sequence[Change], partition: int, partitions: int) -> list[Change]:
    return [row for row in rows if place(row, partitions) == partition]


class Acts(CutFiles):
    """A checkpoint whose state is spread as Spark would, and the acts that spread it anew."""

    partitions = 2

    def __init__(self, files: CheckpointFiles) -> None:
        super().__init__(files)
        self.rows: dict[bytes, Change] = {}
        self.referred: list[dict[str, Any]] = []

    def page_epochs(self, epoch: int) -> dict[int, int]:
        """Each cut has pages of its epoch, as stores come and go."""
        return {0: epoch} | ({1: epoch} if 1 in self.at[epoch] else {})

    def window(self, epoch: int) -> list[dict[str, Any]]:
        return []

    def put(self, rows: Sequence[Change]) -> None:
        """An epoch that puts these rows where they belong."""
        self.rows |= {row.key: row for row in rows}
        there = [*self.rows.values()]
        counts = [len(own(there, at, self.partitions)) for at in range(self.partitions)]
        changes = [own(rows, at, self.partitions) for at in range(self.partitions)]
        self.commit(*zip(changes, counts, strict=True), referred=self.referred)

    def rescale(self, partitions: int) -> list[Stored]:
        """Spreads the state anew by reference, or goes back to what it is."""
        before, self.partitions = self.partitions, partitions
        frames = []
        for at in range(partitions):
            froms = range(at, before, partitions) if before > partitions else [at % before]
            keys = {"default": [[0], [1]]}
            spread = {"partitions": partitions, "sourcePartitions": before, "keys": keys}
            frames.append(
                referring(
                    self.epoch + 1,
                    [self.chains[of] for of in froms],
                    partition=at,
                    spread=spread if partitions > before else None,
                )
            )
        chains = [*self.chains.values()]
        segments = {of.segment for chain in chains for of in chain}
        segments |= {name for of in self.referred for name in of["segments"]}
        self.referred = [*self.referred]
        self.referred.append({"version": self.epoch + 1, "segments": sorted(segments)})
        stored = self.segment(self.epoch, frames)
        self.chains = {at: [of] for at, of in enumerate(stored)}
        self.cut(self.epoch, referred=self.referred)
        self.epoch += 1
        return stored

    def bases(self) -> None:
        """Each store has a base of its own from now on."""
        for at in range(self.partitions):
            self.base(at, own([*self.rows.values()], at, self.partitions), number=3 + at)
        self.referred = []
        self.put([])


def own_and_end(acts: Acts, generation: int) -> None:
    acts.write(f"owners/{generation:020d}.json", b"{}")
    acts.write(f"owners/{generation:020d}.ended", b"{}")


@pytest.fixture
def acts(files: CheckpointFiles) -> Acts:
    """Two epochs, in which all people have come."""
    made = Acts(files)
    made.put(PEOPLE[:25])
    made.put(PEOPLE[25:])
    return made


def rows(table: pa.Table) -> list[dict[str, Any]]:
    found = table.select(["key", "value"]).to_pylist()
    return sorted(found, key=lambda row: int(row["key"]["id"]))


def ways(acts: Acts) -> Iterator[Checkpoint]:
    """The state by reference, as it is at once, after an epoch, and after further acts."""
    for partitions in (4, 1, 3):
        acts.rescale(partitions)
        yield Checkpoint(acts.location)
        acts.put([])
        yield Checkpoint(acts.location)


def test_all_rows_are_there_whatever_refers_to_what(acts: Acts) -> None:
    before = Checkpoint(acts.location)
    wanted, digest = rows(before.state(0)), before.test_restore(read_only=True).digest
    assert len(wanted) == len(PEOPLE)
    for there in ways(acts):
        assert rows(there.state(0)) == wanted
        assert there.test_restore(read_only=True).digest == digest
        assert [(of.name, of.keys) for of in there.families(0)] == [("default", len(PEOPLE))]
        places = there.state(0).select(["partition"]).to_pylist()
        expected = {place(of, acts.partitions) for of in PEOPLE}
        assert {of["partition"] for of in places} == expected
        assert there.verify().ok, there.verify()


def test_a_key_is_found_in_whichever_partition_it_is(acts: Acts) -> None:
    acts.rescale(6)
    acts.rescale(3)
    acts.put(MORE)
    there = Checkpoint(acts.location)
    by_id = {row["key"]["id"]: row for row in rows(there.state(0))}
    assert len(by_id) == 50
    for number in (1, 17, 30, 31, 50):
        found = there.lookup(0, {"id": number, "name": f"person-{number}"})
        assert found.select(["key", "value"]).to_pylist() == [by_id[number]]
    assert there.lookup(0, {"id": 51, "name": "person-51"}).num_rows == 0


def test_later_changes_count_before_what_is_referred_to(acts: Acts) -> None:
    acts.rescale(4)
    acts.put(MORE)
    found = {
        row["key"]["id"]: row["value"]["count"] for row in rows(Checkpoint(acts.location).state(0))
    }
    assert found == {n: n for n in range(1, 31)} | {n: -n for n in range(31, 51)}
    (diff,) = Checkpoint(acts.location).diff(1, 3)
    assert (diff.added, diff.changed, diff.removed) == (10, 10, 0)
    assert list(Checkpoint(acts.location).diff(1, 2)) == []


def test_sizes_are_those_of_what_is_referred_to(acts: Acts) -> None:
    (before,) = Checkpoint(acts.location).skew()
    acts.rescale(4)
    (after,) = Checkpoint(acts.location).skew()
    own_bytes = sum(chain[0].entry["length"] for chain in acts.chains.values())
    assert after.partitions == 4
    # Each source is shared by two stores.
    assert 0 <= before.bytes + own_bytes - after.bytes <= 4
    acts.rescale(2)
    (again,) = Checkpoint(acts.location).skew()
    assert after.bytes < again.bytes < after.bytes + 2 * own_bytes


def test_what_is_referred_to_is_counted_beside_what_a_store_has(
    acts: Acts, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = Checkpoint(acts.location).cut()
    assert whole.referenced_bytes == 0
    assert "referred to" not in str(whole)
    acts.rescale(4)
    cut = Checkpoint(acts.location).cut()
    own = sum(chain[0].entry["length"] for chain in acts.chains.values())
    assert cut.info.bytes == own
    # Each source is divided by two stores.
    assert cut.referenced_bytes is not None
    assert 0 <= whole.info.bytes - cut.referenced_bytes <= 4
    assert cut.referenced_bytes == sum(of.referenced_bytes or 0 for of in cut.stores)
    stores = Checkpoint(acts.location).stores()
    assert [of.referenced_bytes for of in stores] == [of.referenced_bytes for of in cut.stores]
    assert _cli.main(["show", str(acts.location)]) == 0
    assert re.search(rf"referred to +{cut.referenced_bytes} bytes", capsys.readouterr().out)
    assert _cli.main(["show", str(acts.location), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["referenced_bytes"] == cut.referenced_bytes
    assert f"{cut.referenced_bytes} bytes" in cut._repr_html_()
    # Stores that refer to stores that refer lead to all of it.
    acts.rescale(2)
    again = Checkpoint(acts.location).cut()
    assert again.referenced_bytes is not None
    assert 0 <= whole.info.bytes + own - again.referenced_bytes <= 8
    acts.bases()
    assert Checkpoint(acts.location).cut().referenced_bytes == 0


def test_a_cut_is_shown_whose_bases_are_damaged(acts: Acts) -> None:
    (base, *_) = acts.rescale(4)
    acts.segment_path(base).unlink()
    cut = Checkpoint(acts.location).cut()
    assert cut.referenced_bytes is None
    assert "unknown" in str(cut)
    assert {of.referenced_bytes for of in Checkpoint(acts.location).stores()} == {None}


def test_a_base_that_refers_is_a_frame_without_rows(acts: Acts) -> None:
    acts.rescale(4)
    acts.put(MORE)
    base, delta = Checkpoint(acts.location).frames(0, 3)
    assert (base.kind, base.version, base.records, base.keys) == ("snapshot", 3, 0, 0)
    assert (delta.kind, delta.version, delta.parent_version) == ("changelog", 4, 3)
    assert delta.records > 0


def test_damage_of_what_is_referred_to_is_found_and_named(acts: Acts) -> None:
    source = acts.chains[1][0]
    acts.rescale(4)
    acts.put([])
    at = source.entry["offset"] + source.entry["length"] // 2
    acts.change(acts.segment_path(source), lambda data: flipped(data, at))
    report = Checkpoint(acts.location).verify()
    (problem,) = report.problems
    assert Path(problem.object) == acts.segment_path(source)
    assert problem.error_id == "CLEANCUT_FRAME_CORRUPTED"
    assert problem.affects == (1, 2, 3, 4)
    acts.segment_path(source).unlink()
    report = Checkpoint(acts.location).verify()
    (problem,) = report.problems
    assert (Path(problem.object), problem.error_id) == (
        acts.segment_path(source),
        "CLEANCUT_FRAME_MISSING",
    )


def test_what_is_referred_to_stays_until_nothing_refers_to_it(acts: Acts) -> None:
    sources = {of.segment for chain in acts.chains.values() for of in chain}
    wanted = rows(Checkpoint(acts.location).state(0))

    def there() -> set[str]:
        return {name for name in sources if (acts.root / name).exists()}

    acts.rescale(4)
    acts.put([])
    Checkpoint(acts.location).expire(retain_last=1).apply()
    assert there() == sources
    assert rows(Checkpoint(acts.location).state(0)) == wanted
    assert Checkpoint(acts.location).verify().unreferenced == 0
    acts.savepoint("before", acts.epoch - 1)
    acts.bases()
    acts.put([])
    Checkpoint(acts.location).expire(retain_last=1).apply()
    assert there() == sources
    (acts.root / "savepoints" / "before.cut").unlink()
    Checkpoint(acts.location).collect_garbage().apply()
    assert there() == set()
    assert rows(Checkpoint(acts.location).state(0)) == wanted
    assert Checkpoint(acts.location).verify().ok


def test_an_expiry_leaves_all_to_an_act_that_has_begun_meanwhile(
    acts: Acts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An act may refer to what it has found in a cut, after others were looked for."""
    acts.put([])
    acts.bases()
    acts.put([])
    segments = sorted(acts.root.glob("segments/*/*"))
    delete = expiry._delete

    def begun(root: Any, names: Sequence[str]) -> None:
        delete(root, names)
        note = {"generation": 1, "runId": "act", "host": "h-1", "startedMs": 1_700_000_000_000}
        acts.write(f"owners/{1:020d}.json", json.dumps(note).encode())

    monkeypatch.setattr(expiry, "_delete", begun)
    plan = Checkpoint(acts.location).expire(retain_last=1)
    assert plan.segments > 0
    with pytest.raises(RequestError, match="has begun meanwhile") as raised:
        plan.apply()
    assert raised.value.error_id == "CLEANCUT_OPERATION_REFUSED"
    assert sorted(acts.root.glob("segments/*/*")) == segments


@pytest.mark.parametrize("passes", [1, 2])
def test_an_act_that_was_fenced_may_yet_commit_what_refers_to_a_cut_that_has_gone(
    acts: Acts, passes: int
) -> None:
    """It looks for a later owner, stands still, and then writes its cut."""
    seen, of_then = dict(acts.chains), acts.epoch - 1
    acts.put([])
    acts.bases()
    for _ in range(_MARGIN_EPOCHS + 2):
        acts.put([])
    for part in acts.root.glob("*/*/*"):
        os.utime(part, (1, 1))
    note = {"generation": 1, "runId": "act", "host": "h-1", "startedMs": 1_700_000_000_000}
    acts.write(f"owners/{1:020d}.json", json.dumps(note).encode())
    wanted = rows(Checkpoint(acts.location).state(0))
    for _ in range(passes):
        done = Checkpoint(acts.location).expire(retain_last=1).apply(fence="it was killed")
    assert of_then not in [of.epoch for of in Checkpoint(acts.location).cuts()]
    assert done.segments == 0
    acts.chains = seen
    acts.rescale(4)
    assert Checkpoint(acts.location).verify().ok
    assert rows(Checkpoint(acts.location).state(0)) == wanted
    # A run that has ended since has written an epoch: the act's cut is there, or never will be.
    own_and_end(acts, 4)
    acts.put([])
    acts.bases()
    acts.put([])
    assert Checkpoint(acts.location).expire(retain_last=1).apply().segments > 0
    assert Checkpoint(acts.location).verify().unreferenced == 0


def test_a_state_whose_keys_cannot_be_told_apart_is_refused_and_not_taken_for_damaged(
    acts: Acts, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts.rescale(4)
    acts.put([])

    def untold(*_: object) -> Any:
        raise error_of("CLEANCUT_COLUMN_UNREADABLE", column="key", type="map", reason="by no hash")

    monkeypatch.setattr("cleancut._checkpoint.read.referred.wanted", untold)
    there = Checkpoint(acts.location)
    assert there.verify().ok, there.verify()
    for read in (
        lambda: there.state(0),
        lambda: there.test_restore(read_only=True),
        lambda: there.families(0),
    ):
        with pytest.raises(RequestError, match="by no hash"):
            read()


def test_a_cut_names_what_its_bases_refer_to(acts: Acts) -> None:
    sources = {of.segment for chain in acts.chains.values() for of in chain}
    acts.rescale(4)
    cut = CutReader(open_root(acts.location).objects).cut(acts.epoch - 1)
    assert sources <= cut.named()


def test_columns_within_columns_tell_the_partition_of_a_key() -> None:
    """As those of timers, maps and times to live, whose keys have that of the group in them."""
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
def test_a_nested_key_that_ends_too_early_is_damaged(cut_to: int) -> None:
    """A row with a list of two numbers: 16 bytes, and 32 after them."""
    row = struct_of({"fields": [{"name": "k", "type": LIST}]}, "key")
    raw = (0).to_bytes(8, "little") + (32 | 16 << 32).to_bytes(8, "little")
    raw += (2).to_bytes(8, "little") + (0).to_bytes(8, "little") + bytes(16)
    assert [cell.raw for cell in stored_cells(row, raw)[0].fields] == [bytes(8)] * 2
    with pytest.raises(MisfitError):
        stored_cells(row, raw[: len(raw) - 4 - cut_to])
