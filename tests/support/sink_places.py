"""Locations of sinks in tests and their files: a local disk, or a bucket."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import boto3
from pyspark.sql import SparkSession

from tests.support.s3_servers import S3Server

KEYS = "spark.sql.streaming.stateStore.cleancut."


class Place(Protocol):
    """A location, and the settings of a session for it.

    Attributes:
        location: the location for `EpochFiles`.
        settings: the settings of a session.
    """

    location: str
    settings: Mapping[str, str]

    def sizes(self) -> dict[str, int]:
        """Returns the size in bytes of each visible file, by its name below the location."""

    def read(self, name: str) -> bytes: ...

    def delete(self, name: str) -> None: ...


def attempts(place: Place) -> set[str]:
    """Returns the non-empty directories of attempts."""
    return {name.split("/")[1] for name in place.sizes() if name.startswith("_files/")}


class Disk:
    """A directory; files that begin with a dot are Hadoop's."""

    settings: Mapping[str, str] = {}

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.location = str(directory)

    def sizes(self) -> dict[str, int]:
        files = (path for path in self._directory.rglob("*") if path.is_file())
        return {
            str(path.relative_to(self._directory)): path.stat().st_size
            for path in files
            if not path.name.startswith(".")
        }

    def read(self, name: str) -> bytes:
        return (self._directory / name).read_bytes()

    def delete(self, name: str) -> None:
        (self._directory / name).unlink()


class Bucket:
    """A prefix in the bucket of a server."""

    def __init__(self, endpoint: str, prefix: str) -> None:
        self._prefix = f"{prefix}/"
        self._bucket = S3Server.BUCKET
        self._client: Any = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id="access",
            aws_secret_access_key="secret",
        )
        self.location = f"s3://{self._bucket}/{prefix}"
        self.settings: Mapping[str, str] = {
            f"{KEYS}s3.endpoint": endpoint,
            f"{KEYS}s3.region": "us-east-1",
        }

    def sizes(self) -> dict[str, int]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix
        )
        return {
            entry["Key"].removeprefix(self._prefix): entry["Size"]
            for page in pages
            for entry in page.get("Contents", [])
        }

    def read(self, name: str) -> bytes:
        response = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name)
        return bytes(response["Body"].read())

    def write(self, name: str, body: bytes) -> None:
        """Writes a file, like a manual restore."""
        self._client.put_object(Bucket=self._bucket, Key=self._prefix + name, Body=body)

    def delete(self, name: str) -> None:
        self._client.delete_object(Bucket=self._bucket, Key=self._prefix + name)


def session_at(spark: SparkSession, place: Place) -> SparkSession:
    """Returns a separate session with access to a location."""
    session = spark.newSession()
    for name, value in place.settings.items():
        session.conf.set(name, value)
    return session


@contextmanager
def credentials(spark: SparkSession) -> Iterator[None]:
    """Sets the credentials of the test servers in a running JVM."""
    system: Any = spark._jvm.java.lang.System  # type: ignore[union-attr]
    properties = {"aws.accessKeyId": "access", "aws.secretAccessKey": "secret"}
    for name, value in properties.items():
        system.setProperty(name, value)
    yield
    for name in properties:
        system.clearProperty(name)
