"""Tasks that open a store of another executor, run or application, and the bytes that they read."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.kills import environment
from tests.support.patience import PATIENCE_S
from tests.support.s3_servers import S3Server, s3proxy
from tests.support.tiers import long

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
TIMEOUT_S = PATIENCE_S


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3proxy(tmp_path_factory.mktemp("s3proxy")) as started:
        yield started


@long
@pytest.mark.parametrize("replicas", [0, 1])
def test_a_moved_task_finds_its_base_on_the_disk(
    server: S3Server, tmp_path: Path, show: Callable[[str], None], replicas: int
) -> None:
    location = f"s3://{server.BUCKET}/moving-{replicas}"

    def run(step: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "tests.support.moving_tasks", step, server.endpoint]
        answer = subprocess.run(
            [*command, location, str(tmp_path), str(replicas)],
            env=environment() | server.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert answer.returncode == 0, answer.stderr[-5000:]
        report: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
        show(f"{replicas} replicas: {report}")
        assert report["wrong"] == []
        return report

    report = run("kill")
    # Without replicas the expected executor has read it in the meantime.
    assert report["copies before"] == 2 * replicas
    lost = report["after a kill"]
    assert 1 <= lost["loads"] <= 2
    assert lost["local"] == lost["loads"]
    assert report["after a restart"] == {"loads": 2, "local": 2}
    # A successor fetches the snapshots before it takes the query over.
    report = run("successor")
    assert report["copies before"] == 2
    assert report["after a takeover"] == {"loads": 2, "local": 2}
