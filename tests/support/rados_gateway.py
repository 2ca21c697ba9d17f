"""Ceph's S3 server, the RADOS gateway, with the monitor and the object daemon that it requires.

`python -m tests.support.rados_gateway <port> <directory> <bucket> <access key> <secret key>` runs
until it is terminated, and stops all of its processes. Objects are in memory. Once the port is
open, the bucket exists.

The settings are those of a cluster of one machine that is to be ready soon: see "Manual deployment"
and the configuration references of Ceph's monitors, daemons and gateway (https://docs.ceph.com).
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from demo.ports import free_port, listens
from tests.support.patience import PATIENCE_S

_READY_WITHIN_S = PATIENCE_S
_STOPPED_WITHIN_S = 10.0
_MEMORY_BYTES = 4 << 30
_CONFIGURATION = """\
[global]
fsid = {fsid}
mon_host = {monitor}
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_ipv6 = false
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
# By default a client asks for an encrypted connection, which needs keys.
ms_mon_client_mode = crc
# By default the monitor waits a second for each pool that the gateway makes.
paxos_propose_interval = 0.05
paxos_min_wait = 0.01
mon_data_avail_crit = 1
mon_allow_pool_size_one = true
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
osd_objectstore = memstore
memstore_device_bytes = {memory}
mon_data = {home}/mon
osd_data = {home}/osd
run_dir = {home}/run
keyring = {home}/keyring
log_file = {home}/$name.log
admin_socket =
pid_file =
"""


def run(port: int, home: Path, bucket: str, access: str, secret: str) -> None:
    """Starts everything, and waits for the gateway's end.

    Raises:
        RuntimeError: a process did not start; its output is in the message or in its log.
    """
    with _ended() as running:
        _start_cluster(home, running)
        _tool(
            *("radosgw-admin", "user", "create", "--uid", "tests", "--display-name", "tests"),
            *("--access-key", access, "--secret-key", secret),
        )
        # By a separate gateway, so that the bucket exists once the port of the other is open.
        with _ended() as first:
            aside = free_port()
            _gateway(aside, first)
            _create_bucket(aside, bucket, access, secret)
        _gateway(port, running).wait()


@contextlib.contextmanager
def _ended() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Stops processes at the end of the block, in reverse order of their start."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        yield running
    finally:
        for process in reversed(running):
            process.terminate()
            try:
                process.wait(_STOPPED_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _start_cluster(home: Path, running: list[subprocess.Popen[bytes]]) -> None:
    """Starts a monitor and one object daemon; the environment names their configuration."""
    for name in ("mon", "osd", "run"):
        (home / name).mkdir(parents=True)
    (home / "keyring").touch()
    fsid, daemon = str(uuid.uuid4()), str(uuid.uuid4())
    monitor = f"[v2:127.0.0.1:{free_port()},v1:127.0.0.1:{free_port()}]"
    settings = home / "ceph.conf"
    settings.write_text(
        _CONFIGURATION.format(fsid=fsid, monitor=monitor, home=home, memory=_MEMORY_BYTES)
    )
    os.environ["CEPH_CONF"] = str(settings)
    monitors = str(home / "monmap")
    _tool("monmaptool", "--create", "--fsid", fsid, "--addv", "a", monitor, monitors)
    _tool("ceph-mon", "--mkfs", "-i", "a", "--monmap", monitors)
    running.append(subprocess.Popen(["ceph-mon", "-i", "a", "-f"]))
    # Creates its own files once the monitor answers.
    _tool("ceph-osd", "--mkfs", "-i", "0", "--osd-uuid", daemon)
    _tool("ceph", "osd", "new", daemon, "0")
    _tool("ceph", "osd", "crush", "add", "osd.0", "1.0", "root=default")
    running.append(subprocess.Popen(["ceph-osd", "-i", "0", "-f"]))


def _gateway(port: int, running: list[subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Returns once it listens."""
    frontend = f"beast endpoint=127.0.0.1:{port} tcp_nodelay=1"
    process = subprocess.Popen(["radosgw", "-n", "client.rgw", "-f", "--rgw-frontends", frontend])
    running.append(process)
    deadline = time.monotonic() + _READY_WITHIN_S
    while not listens(port):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the gateway does not listen; exit code {process.poll()}")
        time.sleep(0.05)
    return process


def _create_bucket(port: int, bucket: str, access: str, secret: str) -> None:
    client: Any = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        aws_access_key_id=access,
        aws_secret_access_key=secret,
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 10}),
    )
    try:
        client.create_bucket(Bucket=bucket)
    except BotoCoreError as problem:
        raise RuntimeError(f"the gateway makes no bucket: {problem}") from problem


def _tool(*command: str) -> None:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_READY_WITHIN_S
    )
    if done.returncode != 0:
        said = done.stdout.decode(errors="replace")
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{said}")


def _main(arguments: Sequence[str]) -> None:
    # As an exception, which stops all processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    port, home, bucket, access, secret = arguments
    run(int(port), Path(home), bucket, access, secret)


if __name__ == "__main__":
    _main(sys.argv[1:])
