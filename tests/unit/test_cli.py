"""The command `cleancut`."""

import inspect
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import cleancut
from cleancut._cli import arguments
from cleancut._cli import main as _cli
from cleancut._session.options import PREFIX
from cleancut._session.settings import CONNECT_KEY
from cleancut.errors import error_of
from tests.support.patience import PATIENCE_S
from tests.unit.checkpoint_files import CheckpointFiles, name_of

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
LEVEL = "spark.sql.streaming.stateStore.cleancut.compressionLevel"


@pytest.fixture
def jars(monkeypatch: pytest.MonkeyPatch) -> str:
    names = ("cleancut-common_2.13-0.1.0.jar", "cleancut-spark-4.3_2.13-0.1.0.jar")
    paths = tuple(f"/opt/some where/{name}" for name in names)
    monkeypatch.setattr(_cli, "jar_paths", lambda: paths)
    return ",".join(paths)


def id_of(err: str) -> str | None:
    match = re.search(r"^\[(CLEANCUT_\w+)\] ", err, re.MULTILINE)
    return match and match[1]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = _cli.main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_conf_prints_arguments_that_a_shell_takes(
    capsys: pytest.CaptureFixture[str], jars: str
) -> None:
    status, out, _ = run(capsys, "conf", "--compression-level", "-3")
    assert status == _cli.OK
    assert shlex.split(out.replace("\\\n", " ")) == [
        "--jars",
        jars,
        "--conf",
        f"{CONNECT_KEY}=io.cleancut.CleancutConnect",
        "--conf",
        f"{PROVIDER}=io.cleancut.CleancutStateStoreProvider",
        "--conf",
        "spark.sql.extensions=io.cleancut.CleancutExtensions",
        "--conf",
        f"{MANAGER}=io.cleancut.CleancutCheckpointFileManager",
        "--conf",
        f"{LEVEL}=-3",
    ]


def test_conf_prints_one_line_for_a_substitution(
    capsys: pytest.CaptureFixture[str], jars: str
) -> None:
    """A command substitution keeps a backslash as a separate argument."""
    _, to_paste, _ = run(capsys, "conf", "--cuts")
    _, line, _ = run(capsys, "conf", "--cuts", "--format", "line")
    assert line.count("\n") == 1
    assert shlex.split(line) == shlex.split(to_paste.replace("\\\n", " "))


def test_conf_prints_properties_and_json(capsys: pytest.CaptureFixture[str], jars: str) -> None:
    _, properties, _ = run(capsys, "conf", "--format", "properties")
    confs = {
        "spark.jars": jars,
        CONNECT_KEY: "io.cleancut.CleancutConnect",
        PROVIDER: "io.cleancut.CleancutStateStoreProvider",
        "spark.sql.extensions": "io.cleancut.CleancutExtensions",
        MANAGER: "io.cleancut.CleancutCheckpointFileManager",
    }
    assert dict(line.split(" ", 1) for line in properties.splitlines()) == confs
    _, out, _ = run(capsys, "conf", "--format", "json")
    assert json.loads(out) == confs


def test_conf_for_real_time_mode_names_no_provider(
    capsys: pytest.CaptureFixture[str], jars: str
) -> None:
    _, out, _ = run(capsys, "conf", "--real-time-mode", "--format", "json")
    assert json.loads(out) == {
        "spark.jars": jars,
        CONNECT_KEY: "io.cleancut.CleancutConnect",
        "spark.sql.extensions": "io.cleancut.CleancutExtensions",
        MANAGER: "io.cleancut.CleancutCheckpointFileManager",
        "spark.sql.streaming.stateStore.cleancut.realTimeMode": "true",
    }


GIVEN = {
    "--accelerate-python": "false",
    "--access-point": "arn:aws:s3:eu-west-1:123456789012:accesspoint/mine",
    "--alignment-timeout": "250ms",
    "--change-feed": "all",
    "--check-compatibility": "true",
    "--compression-level": "3",
    "--cut-retention": "168h",
    "--cuts": "auto",
    "--dialect": "r2",
    "--encryption": "kms",
    "--endpoint": "http://127.0.0.1:9000",
    "--handover-timeout": "1m",
    "--history-retention": "720h",
    "--lazy-restore": "false",
    "--local-cache-size": "2g",
    "--lock-acquire-timeout": "5s",
    "--max-connections": "200",
    "--max-epoch-duration": "1h",
    "--max-in-flight-bytes": "8m",
    "--max-off-heap-memory": "2g",
    "--merged-aggregation": "false",
    "--mode": "unaligned",
    "--path-style": "false",
    "--pipelined-cuts": "true",
    "--profile": "second-site",
    "--real-time-mode": "true",
    "--region": "eu-west-1",
    "--request-timeout": "30s",
    "--requester-pays": "true",
    "--require-provider": "true",
    "--split-groups": "false",
    "--standby-replicas": "1",
    "--state-partitions": "8",
    "--trusted-scheme": "maprfs",
    "--ui-epochs": "500",
}


def test_conf_accepts_every_option_of_configure(
    capsys: pytest.CaptureFixture[str], jars: str
) -> None:
    """`conf` lacked the options for stores other than AWS and for the capture of in-flight rows."""
    _, *options = inspect.signature(cleancut.configure).parameters
    assert [f"--{name.replace('_', '-')}" for name in sorted(options)] == list(GIVEN)
    words = [word for pair in GIVEN.items() for word in pair]
    _, out, _ = run(capsys, "conf", "--format", "json", *words)
    confs = json.loads(out)
    keys = [key for key in confs if key.startswith(PREFIX)]
    assert sorted(confs[key] for key in keys) == sorted(GIVEN.values())
    assert f"{PREFIX}maxInFlightBytes" in keys
    assert PROVIDER not in confs


@pytest.mark.parametrize(
    "switch",
    [
        "check-compatibility",
        "cuts",
        "path-style",
        "pipelined-cuts",
        "real-time-mode",
        "requester-pays",
        "split-groups",
    ],
)
def test_a_switch_of_conf_alone_turns_on(
    capsys: pytest.CaptureFixture[str], jars: str, switch: str
) -> None:
    _, alone, _ = run(capsys, "conf", "--format", "json", f"--{switch}")
    assert alone == run(capsys, "conf", "--format", "json", f"--{switch}", "true")[1]
    assert list(json.loads(alone).values())[-1] == "true"
    status, _, err = run(capsys, "conf", f"--{switch}", "perhaps")
    assert status == _cli.REFUSED
    assert f"{switch.replace('-', '_')} must be" in err


def test_conf_for_cuts_names_their_key(capsys: pytest.CaptureFixture[str], jars: str) -> None:
    _, out, _ = run(capsys, "conf", "--cuts", "--format", "json")
    assert json.loads(out)["spark.sql.streaming.stateStore.cleancut.cuts"] == "true"
    assert json.loads(out)[MANAGER] == "io.cleancut.CleancutCheckpointFileManager"


def test_conf_refuses_wrong_options_all_at_once(
    capsys: pytest.CaptureFixture[str], jars: str
) -> None:
    status, out, err = run(
        capsys, "conf", "--compression-level", "99", "--lock-acquire-timeout", "5"
    )
    assert (status, out) == (_cli.REFUSED, "")
    assert err.startswith("[CLEANCUT_CONF_INVALID]")
    assert "compression_level" in err
    assert "lock_acquire_timeout" in err


def test_conf_without_a_jar_names_the_remedy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> str:
        raise error_of("CLEANCUT_JAR_MISSING", path="x.jar")

    monkeypatch.setattr(_cli, "jar_paths", missing)
    status, _, err = run(capsys, "conf")
    assert status == _cli.REFUSED
    assert "make jar" in err


def test_jars_prints_lines_or_a_class_path(capsys: pytest.CaptureFixture[str], jars: str) -> None:
    assert run(capsys, "jars") == (_cli.OK, jars.replace(",", "\n") + "\n", "")
    _, out, _ = run(capsys, "jars", "--separator", ":")
    assert out == jars.replace(",", ":") + "\n"


def test_ls_lists_the_stores(
    capsys: pytest.CaptureFixture[str], two_partitions: CheckpointFiles
) -> None:
    location = str(two_partitions.location)
    status, out, _ = run(capsys, "ls", location)
    assert status == _cli.OK
    assert out.splitlines()[0].split() == [
        "operator",
        "partition",
        "store",
        "versions",
        "latest_version",
        "bytes",
        "referenced_bytes",
    ]
    assert len(out.splitlines()) == 4
    _, out, _ = run(capsys, "ls", location, "--json")
    assert [store["versions"] for store in json.loads(out)] == [[1, 2, 3], [1, 2]]


def test_state_shows_rows(
    capsys: pytest.CaptureFixture[str], two_partitions: CheckpointFiles
) -> None:
    location = str(two_partitions.location)
    status, out, _ = run(
        capsys, "state", location, "--operator", "0", "--version", "1", "--limit", "1"
    )
    assert status == _cli.OK
    assert '{"id": 2, "name": "grace"}' in out
    assert out.splitlines()[-1] == "the first 1 rows of version 1"
    _, out, _ = run(capsys, "state", location, "--operator", "0", "--partition", "1", "--json")
    assert json.loads(out) == {
        "version": 2,
        "has_more": False,
        "rows": [
            {"key": {"id": 4, "name": "emmy"}, "value": {"count": 2, "sum": 8.0}, "partition": 1}
        ],
    }


def test_a_negative_limit_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], two_partitions: CheckpointFiles
) -> None:
    with pytest.raises(SystemExit):
        run(capsys, "state", str(two_partitions.location), "--operator", "0", "--limit", "-1")
    assert "--limit: -1 is not a number of rows" in capsys.readouterr().err


def test_verify_reports_corruption_by_exit_status(
    capsys: pytest.CaptureFixture[str], two_partitions: CheckpointFiles
) -> None:
    location = str(two_partitions.location)
    status, out, _ = run(capsys, "verify", location)
    assert status == _cli.OK
    assert "intact" in out
    path = two_partitions.directory(0, 1) / name_of(2)
    path.write_bytes(b"")
    status, out, _ = run(capsys, "verify", location, "--json")
    assert status == _cli.DAMAGED
    assert json.loads(out)["problems"][0]["object"] == str(path)


def test_corruption_found_by_a_read_has_the_same_exit_status(
    capsys: pytest.CaptureFixture[str], two_partitions: CheckpointFiles
) -> None:
    (two_partitions.directory(0, 1) / name_of(2)).write_bytes(b"")
    status, out, err = run(capsys, "state", str(two_partitions.location), "--operator", "0")
    assert (status, out) == (_cli.DAMAGED, "")
    assert err.startswith("[CLEANCUT_FRAME_CORRUPTED]")


@pytest.mark.parametrize("command", ["ls", "verify"])
def test_a_location_without_checkpoint_is_refused(
    capsys: pytest.CaptureFixture[str], command: str, tmp_path: Path
) -> None:
    status, out, err = run(capsys, command, str(tmp_path))
    assert (status, out) == (_cli.REFUSED, "")
    assert err.startswith("[CLEANCUT_CHECKPOINT_NOT_FOUND]")


def test_a_failing_file_system_is_reported(
    capsys: pytest.CaptureFixture[str],
    two_partitions: CheckpointFiles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(location: str, **_: object) -> None:
        raise PermissionError(13, "Permission denied", location)

    monkeypatch.setattr(arguments, "Checkpoint", fail)
    status, _, err = run(capsys, "ls", "x")
    assert status == _cli.REFUSED
    assert id_of(err) == "CLEANCUT_FILE_UNAVAILABLE"
    assert "`cleancut ls`" in err
    assert "Permission denied" in err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (KeyError("x"), 70),
        (error_of("CLEANCUT_OBJECT_STORE_UNAVAILABLE"), 75),
        (KeyboardInterrupt(), 130),
    ],
)
def test_only_corruption_has_its_exit_status(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    status: int,
) -> None:
    """A crash ended with status 1, which means that the checkpoint is corrupted."""

    def fail(location: str, **_: object) -> None:
        raise error

    monkeypatch.setattr(arguments, "Checkpoint", fail)
    exit_status, _, err = run(capsys, "ls", "x")
    assert exit_status == status
    assert (id_of(err) == "CLEANCUT_COMMAND_FAILED") == (status == _cli.BUG)
    assert {_cli.OK, _cli.DAMAGED, _cli.REFUSED} == {0, 1, 2}


def test_the_module_runs_as_a_command(two_partitions: CheckpointFiles) -> None:
    command = [sys.executable, "-m", "cleancut", "verify", str(two_partitions.location)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert answer.returncode == _cli.OK, answer.stderr
    assert "5 intact frames" in answer.stdout


def test_a_closed_pipe_is_not_an_error(two_partitions: CheckpointFiles) -> None:
    command = f"{sys.executable} -m cleancut ls {two_partitions.location} | true"
    script = f"set -o pipefail; {command}; {command.replace('true', 'head -1')}"
    answer = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["roll"], {"rollback"}),
        (["rollback", "--to"], {"--to-epoch", "--to-savepoint", "--to-time"}),
        (["clone", "--provider", ""], {"cleancut", "rocksdb"}),
        (["ls", "{home}/check"], {"{home}/checkpoints"}),
    ],
)
def test_a_shell_completes_commands_options_values_and_directories(
    words: list[str], expected: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "check.txt").touch()
    status, script, _ = run(capsys, "completion", "bash")
    assert status == _cli.OK
    line = " ".join(shlex.quote(word.format(home=tmp_path)) for word in ["cleancut", *words])
    completion = (
        f'COMP_WORDS=({line}); COMP_CWORD={len(words)}; _shtab_cleancut; echo "${{COMPREPLY[@]}}"'
    )
    completed = subprocess.run(
        ["bash", "-c", f"{script}\n{completion}"], capture_output=True, text=True, check=True
    )
    assert set(completed.stdout.split()) == {word.format(home=tmp_path) for word in expected}


def test_without_its_package_completion_names_the_extra(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    status, _, err = run(capsys, "completion", "zsh")
    assert status == _cli.REFUSED
    assert "pip install 'cleancut-0.1.0-py3-none-any.whl[completion]'" in err


def test_assets_are_written_and_changed_ones_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "new" / "monitoring"
    for _ in range(2):
        status, out, _ = run(capsys, "assets", str(directory))
        assert (status, len(out.splitlines())) == (_cli.OK, 2)
    rules = directory / "rules.yml"
    original = rules.read_text(encoding="utf-8")
    rules.write_text(original.replace("for: 10m", "for: 1h"), encoding="utf-8")
    status, _, err = run(capsys, "assets", str(directory))
    assert (status, id_of(err)) == (_cli.REFUSED, "CLEANCUT_COMMAND_INVALID")
    assert str(rules) in err
    assert "for: 1h" in rules.read_text(encoding="utf-8")
    assert run(capsys, "assets", str(directory), "--overwrite")[0] == _cli.OK
    assert rules.read_text(encoding="utf-8") == original
