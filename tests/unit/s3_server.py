"""An S3 server in this process, for tests; it checks neither signatures nor digests."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

BUCKET = "checkpoints"


class S3Server:
    """A running server with one bucket."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id="access",
            aws_secret_access_key="secret",
        )
        self.client.create_bucket(Bucket=BUCKET)

    def put(self, prefix: str, objects: Mapping[str, bytes]) -> str:
        """Puts objects below a prefix and returns the location."""
        for name, data in objects.items():
            self.client.put_object(Bucket=BUCKET, Key=f"{prefix}/{name}", Body=data)
        return f"s3://{BUCKET}/{prefix}"

    def change(self, location: str, name: str, data: bytes | None) -> None:
        """Replaces one object; None deletes it."""
        key = f"{location.removeprefix(f's3://{BUCKET}/')}/{name}"
        if data is None:
            self.client.delete_object(Bucket=BUCKET, Key=key)
        else:
            self.client.put_object(Bucket=BUCKET, Key=key, Body=data)


@contextmanager
def s3_server() -> Iterator[S3Server]:
    # The log has no line per request.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield S3Server(f"http://{host}:{port}")
    finally:
        server.stop()
