"""A bucket of S3, R2 or a store that speaks S3, looked at beside the queries that write to it."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlsplit

_R2_DOMAIN = ".r2.cloudflarestorage.com"
_MOST_DELETES = 1000


class BucketError(Exception):
    """A bucket cannot be looked at; the message says why."""


@dataclass(frozen=True)
class Bucket:
    """The objects of a bucket. Credentials come from where boto3 looks for them.

    Every method raises BucketError where the store does not do what it is asked.

    Attributes:
        name: of the bucket.
        endpoint: URL of the store; None is AWS, or what AWS_ENDPOINT_URL says.
    """

    name: str
    endpoint: str | None

    def names(self, prefix: str) -> list[str]:
        """What lies directly below a prefix that ends with `/`."""
        found = []
        for page in self._pages(prefix, Delimiter="/"):
            found += [entry["Key"] for entry in page.get("Contents", ())]
            found += [entry["Prefix"].removesuffix("/") for entry in page.get("CommonPrefixes", ())]
        return [name.removeprefix(prefix) for name in found]

    def sizes(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Name and size in bytes of every object below a prefix."""
        for page in self._pages(prefix):
            for entry in page.get("Contents", ()):
                yield entry["Key"], entry["Size"]

    def clear(self, prefix: str) -> None:
        """Deletes every object below a prefix."""
        names = [name for name, _ in self.sizes(prefix)]
        for first in range(0, len(names), _MOST_DELETES):
            batch = [{"Key": name} for name in names[first : first + _MOST_DELETES]]
            with self._asked() as client:
                client.delete_objects(Bucket=self.name, Delete={"Objects": batch, "Quiet": True})

    def _pages(self, prefix: str, **options: str) -> Iterator[dict[str, Any]]:
        with self._asked() as client:
            pages = client.get_paginator("list_objects_v2")
            yield from pages.paginate(Bucket=self.name, Prefix=prefix, **options)

    @contextlib.contextmanager
    def _asked(self) -> Iterator[Any]:
        client = _client(self.endpoint)
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield client
        except (BotoCoreError, ClientError) as problem:
            raise BucketError(f"The bucket {self.name} cannot be reached: {problem}") from problem


@cache
def _client(endpoint: str | None) -> Any:
    try:
        # Not at the top: a demo on local directories must run without the package.
        import boto3
        from botocore.config import Config
    except ImportError as problem:
        raise BucketError(
            "Buckets want the package boto3: pip install 'cleancut[s3]'."
        ) from problem
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if endpoint is not None and region is None:
        host = urlsplit(endpoint).hostname or ""
        region = "auto" if host.endswith(_R2_DOMAIN) else "us-east-1"
    config = Config(
        # Not every store takes the checksums that boto3 adds by itself.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": "auto" if endpoint is None else "path"},
    )
    return boto3.client("s3", endpoint_url=endpoint, region_name=region, config=config)
