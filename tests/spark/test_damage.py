"""Corrupted, truncated, missing and exchanged files: a clear error, never a wrong result."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cleancut import Checkpoint, CleancutError, CorruptedError, errors
from tests.support.damages import append, cut, flip, remove, replace_by, without_checksum_file
from tests.support.results import Difference, EpochFiles
from tests.support.seeds import fixed
from tests.support.sessions import ROCKSDB, run
from tests.support.states import state
from tests.support.stopped import (
    BASE,
    LAST,
    OPERATOR,
    Stopped,
    restart,
    stop_with_base_and_deltas,
)
from tests.support.tiers import long, usually

pytestmark = pytest.mark.spark

SEED = fixed(5)
CORRUPTED, MISPLACED, MISSING = (
    f"CLEANCUT_FRAME_{end}" for end in ("CORRUPTED", "MISPLACED", "MISSING")
)
UNKNOWN = "CLEANCUT_FORMAT_UNKNOWN"
FORMAT_VERSION = range(4, 6)
# The frames that a restart reads, and the versions that can be loaded without each.
FRAMES = {
    (BASE, "base"): {1, 2},
    (LAST - 1, "delta"): {1, 2, 3},
    (LAST, "delta"): {1, 2, 3, 4},
}
_NAMED = {f"{version}-{kind}": (version, kind) for version, kind in FRAMES}
_OF_FRAMES = ({f"{BASE}-base"}, _NAMED, _NAMED.__getitem__)


@dataclass(frozen=True)
class Intact:
    """A stopped query, a second query for its files, and the expected results of the first."""

    query: Stopped
    stranger: Stopped
    expected: dict[int, list[str]]
    states: dict[int, list[str]]


@pytest.fixture(scope="module")
def intact(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Intact:
    home = tmp_path_factory.mktemp("intact")
    query, stranger = (
        stop_with_base_and_deltas(spark, home / name, seed=SEED) for name in ("one", "other")
    )
    expected = run(spark, OPERATOR, events=query.events, root=home / "peer", provider=ROCKSDB)
    states = {}
    for version in range(1, LAST + 1):
        rows = read(spark, query, version)
        assert isinstance(rows, list), rows
        states[version] = rows
    return Intact(query, stranger, expected, states)


@pytest.fixture
def query(intact: Intact, tmp_path: Path) -> Stopped:
    return intact.query.copy(tmp_path / "query")


def read(spark: SparkSession, query: Stopped, version: int) -> list[str] | CleancutError:
    """Returns the rows of Spark's reader for a version, or the error of Cleancut."""
    try:
        return state(spark, query.root, batchId=str(version - 1))[0, "default"]
    except Exception as failure:
        error = errors.from_java(failure)
        if error is None:
            raise
        return error


def loadable(spark: SparkSession, query: Stopped, intact: Intact) -> set[int]:
    """Returns the versions that both readers load correctly; they must refuse the others."""
    versions = set()
    for version, rows in intact.states.items():
        loaded = read(spark, query, version)
        if isinstance(loaded, CorruptedError):
            with pytest.raises(CleancutError):
                Checkpoint(query.checkpoint).state(0, version=version)
        else:
            assert loaded == rows
            assert Checkpoint(query.checkpoint).state(0, version=version).num_rows == len(rows)
            versions.add(version)
    return versions


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "flipped in the magic": (partial(flip, position=2), CORRUPTED),
    "flipped in the format version": (partial(flip, position=4), UNKNOWN),
    "flipped in the codec": (partial(flip, position=7), CORRUPTED),
    "flipped in the identity": (partial(flip, position=40), CORRUPTED),
    "flipped in the trailer": (partial(flip, position=-20), CORRUPTED),
    "without its trailer": (partial(cut, keep=-40), CORRUPTED),
    "cut to a few bytes": (partial(cut, keep=7), CORRUPTED),
    "emptied": (partial(cut, keep=0), CORRUPTED),
    "longer by a byte": (append, CORRUPTED),
}


def refuse_and_name(error: object, victim: Path, error_id: str) -> None:
    assert isinstance(error, CleancutError)
    assert error.error_id == error_id
    assert str(victim if error_id != MISSING else victim.parent) in str(error)
    assert str(int(victim.name[:20])) in str(error)


CASES = {
    f"{version}-{kind}-{damage}": (version, kind, damage)
    for version, kind in FRAMES
    for damage in DAMAGES
}
# test_frame.py flips each bit of a frame and truncates it at each length, without a session.
USUALLY = {
    f"{BASE}-base-flipped in the format version",
    f"{LAST}-delta-without its trailer",
}


@pytest.mark.parametrize(
    ("version", "kind", "damage"), usually(USUALLY, CASES, lambda name: CASES[name])
)
def test_restart_on_a_corrupted_frame_fails_and_names_it(
    version: int, kind: str, damage: str, query: Stopped, spark: SparkSession
) -> None:
    act, error_id = DAMAGES[damage]
    victim = without_checksum_file(query.frame(version, kind))
    act(victim)
    refuse_and_name(restart(spark, query), victim, error_id)
    assert not Checkpoint(query.checkpoint).verify().ok


@long
def test_restart_reports_a_checksum_error_of_the_file_system(
    query: Stopped, spark: SparkSession
) -> None:
    victim = query.frame(LAST, "delta")
    flip(victim, position=100)
    refuse_and_name(restart(spark, query), victim, CORRUPTED)


EXCHANGES: dict[str, tuple[tuple[int, str], Callable[[Intact], Path]]] = {
    "delta by that of another partition": (
        (LAST, "delta"),
        lambda i: i.query.frame(LAST, "delta", partition=2),
    ),
    "delta by that of another version": (
        (LAST, "delta"),
        lambda i: i.query.frame(LAST - 1, "delta"),
    ),
    "delta by that of another query": (
        (LAST, "delta"),
        lambda i: i.stranger.frame(LAST, "delta"),
    ),
    "delta in the chain by that of another query": (
        (LAST - 1, "delta"),
        lambda i: i.stranger.frame(LAST - 1, "delta"),
    ),
    "delta by a base": ((LAST, "delta"), lambda i: i.query.frame(BASE, "base")),
    "base by that of another partition": (
        (BASE, "base"),
        lambda i: i.query.frame(BASE, "base", partition=0),
    ),
    "base by that of another query": (
        (BASE, "base"),
        lambda i: i.stranger.frame(BASE, "base"),
    ),
    "base by a delta": ((BASE, "base"), lambda i: i.query.frame(BASE, "delta")),
}


OFTEN_EXCHANGED = {"delta by that of another partition", "base by that of another query"}


@pytest.mark.parametrize("exchange", usually(OFTEN_EXCHANGED, EXCHANGES))
def test_restart_on_an_exchanged_frame_fails_and_names_it(
    exchange: str, query: Stopped, intact: Intact, spark: SparkSession
) -> None:
    place, other = EXCHANGES[exchange]
    victim = without_checksum_file(query.frame(*place))
    replace_by(other(intact))(victim)
    refuse_and_name(restart(spark, query), victim, MISPLACED)
    assert not Checkpoint(query.checkpoint).verify().ok


@pytest.mark.parametrize("version", [LAST - 1, pytest.param(LAST, marks=long)])
def test_restart_without_a_delta_fails_and_names_it(
    version: int, query: Stopped, spark: SparkSession
) -> None:
    victim = without_checksum_file(query.frame(version, "delta"))
    remove(victim)
    refuse_and_name(restart(spark, query), victim, MISSING)


def test_restart_without_a_base_loads_the_deltas(
    query: Stopped, intact: Intact, spark: SparkSession
) -> None:
    remove(without_checksum_file(query.frame(BASE, "base")))
    assert restart(spark, query) is None
    actual = EpochFiles(query.root / "results").read()
    assert Difference.between(intact.expected, actual).none


def test_restart_without_a_base_and_its_deltas_fails_and_names_the_version(
    query: Stopped, spark: SparkSession
) -> None:
    victim = without_checksum_file(query.frame(BASE, "delta"))
    remove(victim)
    remove(without_checksum_file(query.frame(BASE, "base")))
    refuse_and_name(restart(spark, query), victim, MISSING)


@long
@pytest.mark.parametrize("damage", [partial(flip, position=100), remove], ids=["flip", "remove"])
@pytest.mark.parametrize(("version", "kind"), usually(*_OF_FRAMES))
def test_versions_before_the_corruption_stay_loadable(
    version: int,
    kind: str,
    damage: Callable[[Path], None],
    query: Stopped,
    intact: Intact,
    spark: SparkSession,
) -> None:
    damage(without_checksum_file(query.frame(version, kind)))
    every = set(intact.states)
    spared = damage is remove and kind == "base"
    assert loadable(spark, query, intact) == (every if spared else FRAMES[version, kind])


@pytest.mark.parametrize(("version", "kind"), usually(*_OF_FRAMES))
def test_bits_flipped_anywhere_are_found(
    version: int, kind: str, query: Stopped, spark: SparkSession, show: Callable[[str], None]
) -> None:
    victim = without_checksum_file(query.frame(version, kind))
    sound = victim.read_bytes()
    draw = random.Random(f"{SEED} {kind} {version}")
    positions = sorted(draw.sample(range(len(sound)), 8))
    show(f"seed {SEED}, positions {positions} of {len(sound)} bytes")
    for position in positions:
        flip(victim, position=position, bit=draw.randrange(8))
        outcome = read(spark, query, LAST)
        # A flipped format version may be that of a later release.
        refuse_and_name(outcome, victim, UNKNOWN if position in FORMAT_VERSION else CORRUPTED)
        victim.write_bytes(sound)


def test_query_continues_from_the_epoch_before_the_corruption(
    query: Stopped, intact: Intact, spark: SparkSession
) -> None:
    victim = without_checksum_file(query.frame(LAST, "delta"))
    flip(victim, position=100)
    refuse_and_name(restart(spark, query), victim, CORRUPTED)
    # The failed restart has planned the epoch after the corruption, which is rolled back, too.
    query.forget_epochs(LAST - 1, LAST)
    assert restart(spark, query) is None
    actual = EpochFiles(query.root / "results").read()
    assert Difference.between(intact.expected, actual).none


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(None, marks=long),
        pytest.param(b"{}", marks=long),
        b'{"format":"cleancut","version":99}',
    ],
)
def test_checkpoint_of_an_unknown_format_is_refused(
    content: bytes | None, query: Stopped, spark: SparkSession
) -> None:
    note = without_checksum_file(query.format_note)
    note.unlink() if content is None else note.write_bytes(content)
    error = restart(spark, query)
    assert error is not None
    assert error.error_id == (UNKNOWN if content else "CLEANCUT_CHECKPOINT_NOT_FOUND")
    assert "format.json" in str(error)
