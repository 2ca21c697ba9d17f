"""`make test` runs all of its stages, reports each, and fails if one of them fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def stage(stages: Path, name: str, *command: str) -> int:
    environment = {**os.environ, "CLEANCUT_STAGES": str(stages)}
    return subprocess.run([ROOT / "project/stage", name, *command], env=environment).returncode


def report(stages: Path) -> tuple[int, str]:
    command = [sys.executable, "-m", "tests.support.slowest", str(stages)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return ended.returncode, ended.stdout


def test_a_stage_that_fails_does_not_hide_the_results_of_others(tmp_path: Path) -> None:
    (tmp_path / "began").touch()
    assert stage(tmp_path, "one", "true") == 0
    assert report(tmp_path)[0] == 0
    assert stage(tmp_path, "two", "bash", "-c", "exit 3") == 3
    assert stage(tmp_path, "three", "true") == 0
    status, text = report(tmp_path)
    assert status == 1
    results = {line.split()[0]: line.split(maxsplit=3)[3] for line in text.splitlines()[1:4]}
    assert results == {"one": "ok", "two": "failed with exit status 3", "three": "ok"}


def test_a_stage_that_did_not_end_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "began").touch()
    (tmp_path / "killed.status").write_text("did not end\n")
    status, text = report(tmp_path)
    assert status == 1
    assert "killed" in text
    assert "did not end" in text


@pytest.mark.parametrize("are_jars_built", [True, False])
def test_all_stages_run_if_any_fails(tmp_path: Path, are_jars_built: bool) -> None:
    """If compilers and tests fail, each stage that can run still has a result."""
    sbt = tmp_path / "sbt"
    sbt.write_text(f'#!/bin/sh\n[ "$1" = core/assembly ] && {str(are_jars_built).lower()}\n')
    sbt.chmod(0o755)
    files = {name: tmp_path / name for name in ("JAR", "COMMON_JAR", "S3PROXY", "FORKLESS")}
    files |= {"TEST_CLASSES": tmp_path / "classes", "CLEANCUT_STAGES": tmp_path, "SBT": sbt}
    (tmp_path / "classes").touch()
    (tmp_path / "began").touch()
    variables = [f"{name}={path}" for name, path in files.items()]
    variables += [
        "PYTEST=false",
        "PYTHON=/bin/false",
        f"STAGE={ROOT}/project/stage",
        "SETUP_DONE=yes",
    ]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    command = ["make", "--keep-going", "test-without-jar", "test-spark", "test-scala", *variables]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ended.returncode != 0
    status, text = report(tmp_path)
    assert status == 1
    # Tests of Scala may run meanwhile, and their reports follow.
    stages = text.partition("The slowest")[0].splitlines()[1:]
    results = {line.split()[0]: line.split(maxsplit=3)[3] for line in stages}
    # It calls make, which ends with status 2.
    assert results.pop("check-python") == "failed with exit status 2"
    failed = "failed with exit status 1"
    if are_jars_built:
        names = ("test-without-jar", "test-spark", "test-scala", "test-scala-4.2", "check-scala")
        assert results == dict.fromkeys(names, failed) | {"compiled": "ok", "test-classes": "ok"}
    else:
        assert results == dict.fromkeys(("test-without-jar", "compiled"), failed)
