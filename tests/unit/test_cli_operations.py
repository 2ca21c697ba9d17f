"""Operations with wrong arguments are refused before a session starts."""

from pathlib import Path

import pytest

from cleancut import RequestError
from cleancut._cli import main as _cli
from cleancut._operations.offline import check_clone, check_partitions


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: object) -> None:
        raise AssertionError("a session was started")

    monkeypatch.setattr(_cli, "_session", start)


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    return str(tmp_path / "checkpoint")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["rescale", "{at}", "--partitions", "0"], "is not a number of partitions"),
        (["rescale", "{at}", "--partitions", "2147483648"], "is not a number of partitions"),
        (["clone", "{at}", "{at}-2", "--partitions", "-1"], "is not a number of partitions"),
        (["clone", "{at}", "{at}-2", "--provider", "rocksdb", "--cuts", "true"], "cuts require"),
        (["convert", "", "--provider", "cleancut"], "it is empty"),
    ],
)
def test_a_command_is_refused_without_a_session(
    checkpoint: str, arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _cli.main([part.format(at=checkpoint) for part in arguments]) == _cli.REFUSED
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("partitions", [0, -1, 2**31, 2**40])
def test_an_invalid_number_of_partitions_is_refused(partitions: int) -> None:
    with pytest.raises(RequestError) as raised:
        check_partitions("rescale", "q", partitions)
    assert raised.value.error_id == "CLEANCUT_OPERATION_REFUSED"


def test_an_unknown_provider_is_refused() -> None:
    with pytest.raises(RequestError, match="no provider is named 'hdfs'") as raised:
        check_clone("q", cuts=None, provider="hdfs", partitions=None)
    assert raised.value.error_id == "CLEANCUT_OPERATION_REFUSED"
    check_clone("q", cuts=False, provider="rocksdb", partitions=3)
    check_clone("q", cuts=True, provider="cleancut", partitions=None)
