"""A query resumes from an earlier epoch only if the input that it reads again still exists."""

import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import cleancut
from cleancut import Checkpoint, Dataflow, RequestError
from cleancut._cli import main as _cli
from tests.support.file_epochs import KEYS, PLACES, ROWS, Epochs
from tests.support.seeds import chaos_runs, hunting
from tests.support.tiers import long

pytestmark = pytest.mark.spark

SEED = hunting(48)
# The cleaner works within the epoch.
CLEANED_AT_ONCE = {"spark.sql.streaming.fileSource.cleaner.numThreads": "0"}


def counts_of(file: int) -> Counter[int]:
    return Counter((7 * at + file) % KEYS for at in range(ROWS))


def test_a_rollback_whose_input_is_missing_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    it = Epochs(spark, tmp_path, PLACES["cuts"])
    it.add(5)
    it.run()
    for file in (2, 4):
        (tmp_path / f"in/{file:03}.json").unlink()
    plan = cleancut.rollback(it.checkpoint, 0)
    assert "2 of the 4 input files that were read after epoch 0 are missing" in str(plan)
    assert "in/002.json" in str(plan)
    clone = str(tmp_path / "clone")
    for refused in (plan, cleancut.clone(it.checkpoint, clone, 0)):
        with pytest.raises(RequestError, match="allow_missing_input=True") as raised:
            refused.apply()
        assert raised.value.error_id == "CLEANCUT_OPERATION_REFUSED"
    assert not Path(clone).exists()
    assert it.state() == it.expected(5)
    # Epoch 4 has included the missing files, and epoch 3 one of them.
    assert "1 of the 1 input files" in str(cleancut.rollback(it.checkpoint, 3))
    allowed = cleancut.rollback(it.checkpoint, 0, allow_missing_input=True)
    assert "are missing" in str(allowed)
    allowed.apply()
    it.run()
    assert it.state() == counts_of(0) + counts_of(1) + counts_of(3)


def test_a_dataflow_is_unchanged_if_the_input_of_one_query_is_missing(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = Dataflow(tmp_path / "flow")
    queries = {name: Epochs(spark, tmp_path / name, PLACES["cuts"]) for name in ("a", "b")}
    for name, it in queries.items():
        it.add(1)
        it.run()
        flow.add(name, it.checkpoint)
    flow.cut(name="good")
    for it in queries.values():
        it.add(1)
        it.run()
    (tmp_path / "b/in/001.json").unlink()
    targets = {name: str(tmp_path / f"{name}-clone") for name in queries}
    session = queries["a"].session()
    clone = tmp_path / "flow-clone"
    for plan in (
        flow.rollback("good", session=session),
        flow.clone(clone, targets, {}, at="good", session=session),
    ):
        assert "b: 1 of the 1 input files that were read after epoch 0 are missing" in str(plan)
        with pytest.raises(RequestError, match="no query was changed") as raised:
            plan.apply()
        assert raised.value.error_id == "CLEANCUT_DATAFLOW_REFUSED"
    assert not clone.exists()
    assert not any(Path(target).exists() for target in targets.values())
    assert all(it.state() == it.expected(2) for it in queries.values())
    flow.rollback("good", session=session, allow_missing_input=True).apply()
    assert all(it.state() == it.expected(1) for it in queries.values())


def test_a_plan_lists_the_kafka_offsets_that_are_read_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    it = Epochs(spark, tmp_path, PLACES["level-0"])
    it.add(2)
    it.run()
    entry = Path(it.checkpoint) / "offsets/0"
    (entry.parent / ".0.crc").unlink()
    *head, _ = entry.read_text().split("\n")
    entry.write_text("\n".join([*head, '{"orders":{"1":7,"0":12},"clicks":{"0":3}}']))
    plan = str(cleancut.rollback(it.checkpoint, 0))
    assert "Kafka offsets were not checked" in plan
    assert "clicks:0:3 orders:0:12 orders:1:7" in plan
    assert "--topic 'clicks|orders' --time earliest" in plan


def test_the_command_line_continues_without_missing_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given: list[dict[str, object]] = []

    class Session:
        def stop(self) -> None:
            pass

    def plan(*_: object, **named: object) -> object:
        given.append(named)
        raise RuntimeError("planned")

    monkeypatch.setattr(_cli, "_session", lambda _: Session())
    monkeypatch.setattr(_cli, "rollback", plan)
    monkeypatch.setattr(_cli, "clone", plan)
    _cli.main(["rollback", "q", "--to-epoch", "0", "--allow-missing-input"])
    _cli.main(["clone", "q", "into", "--at-epoch", "0", "--allow-missing-input"])
    _cli.main(["rollback", "q", "--to-epoch", "0"])
    assert [named["allow_missing_input"] for named in given] == [True, True, False]


@long
@pytest.mark.parametrize("seed", range(SEED, SEED + 6 * chaos_runs()))
def test_no_row_is_lost_with_a_source_that_cleans_up(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    """Randomized: the state has all rows after a rollback or a clone, or it is refused."""
    draw = random.Random(seed)
    it = Epochs(spark, tmp_path, PLACES[draw.choice(["cuts", "level-0"])] | CLEANED_AT_ONCE)
    cleaning = draw.choice(["off", "archive", "delete"])
    it.source_options = {"cleanSource": cleaning, "sourceArchiveDir": str(tmp_path / "archive")}
    files = 0
    for _ in range(draw.randint(2, 3)):
        count = draw.randint(1, 3)
        files += count
        it.add(count)
        it.run()
    epoch = draw.randrange(files)
    operation = draw.choice(["rollback", "clone"])
    print(f"SEED={seed}: {cleaning}, {operation} to epoch {epoch} of {files}")
    into = str(tmp_path / "clone")
    try:
        if operation == "clone":
            cleancut.clone(it.checkpoint, into, epoch, session=it.session()).apply()
            it.checkpoint = into
        elif epoch < files - 1:
            cleancut.rollback(it.checkpoint, epoch, session=it.session()).apply()
    except RequestError as refused:
        if "are missing" not in str(refused) or cleaning == "off":
            raise
    it.run()
    assert it.state() == it.expected(files), seed
    report = Checkpoint(it.checkpoint).verify()
    assert report.ok, (seed, str(report))
