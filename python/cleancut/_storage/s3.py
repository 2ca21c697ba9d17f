"""Objects in a bucket of S3, R2 or a compatible store, accessed through boto3."""

import os
import re
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from io import BytesIO
from typing import Any, TypeVar
from urllib.parse import urlsplit

from cleancut._packages import missing_package
from cleancut._storage.access import S3Access
from cleancut._storage.object_metadata import changed, misplaced
from cleancut._storage.objects import Stored
from cleancut._storage.parallel import THREADS
from cleancut.errors import CleancutError, error_of

SCHEMES = ("s3://", "s3a://")

_LOCATION = re.compile(r"s3a?://([^/]*)/?(.*)", re.DOTALL)
# Half of the limit of S3 and R2 for a key; the other half is for names below the location.
_MAX_PREFIX_BYTES = 512
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_TRUST = "AWS_CA_BUNDLE can name a file with the certificate of a trusted authority"
_ATTEMPTS = 5
_BODY_ATTEMPTS = 3
_TIMEOUT_S = 20
_NOT_FOUND = 404
_ALREADY_THERE = 412
_BEYOND_THE_END = 416
_TOO_MANY = 429
_SERVER_ERRORS = 500


Answer = TypeVar("Answer")


@dataclass(frozen=True)
class S3Objects:
    """Implements `Objects`.

    A temporary failure of the store is a RetryableError after retries, a refusal a RequestError.

    Attributes:
        client: client of boto3, which threads may share.
        bucket: name of the bucket.
        root: prefix of the keys of all objects, without a slash at the end; may be empty.
        target_bucket: the bucket in requests, or the access point that replaces it.
        listing: additional parameters of listings.
        reading: additional parameters of reads.
        writing: additional parameters of writes.
        is_compared: whether whole objects are compared with the checksum of their write, for
            objects that contain none.
    """

    client: Any
    bucket: str
    root: str
    target_bucket: str
    listing: Mapping[str, Any]
    reading: Mapping[str, Any] = field(repr=False)
    writing: Mapping[str, Any] = field(repr=False)
    is_compared: bool = False

    def path(self, name: str) -> str:
        return f"s3://{self.bucket}/{self._key(name)}"

    def above(self) -> "S3Objects":
        return replace(self, root=self.root.rpartition("/")[0], is_compared=True)

    def _key(self, name: str) -> str:
        return f"{self.root}/{name}" if self.root else name

    def list(self, below: str) -> Mapping[str, int]:
        return {name: stored.size for name, stored in self.details(below).items()}

    def details(self, below: str) -> Mapping[str, Stored]:
        prefix = self._key("")

        def listed() -> dict[str, Stored]:
            pages = self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.target_bucket, Prefix=f"{prefix}{below}/", **self.listing
            )
            return {
                entry["Key"].removeprefix(prefix): Stored(
                    entry["Size"], round(entry["LastModified"].timestamp() * 1000)
                )
                for page in pages
                for entry in page.get("Contents", [])
            }

        return self._request("list", self.path(below), listed)

    def read(self, name: str) -> bytes:
        return self._get(name, {})

    def create(self, name: str, data: bytes) -> bool:
        def put() -> bool:
            try:
                parameters = {"Bucket": self.target_bucket, "Key": self._key(name), **self.writing}
                self.client.put_object(Body=data, IfNoneMatch="*", **parameters)
            except self.client.exceptions.ClientError as error:
                if _status(error) == _ALREADY_THERE:
                    return False
                raise
            return True

        return self._request("create", self.path(name), put)

    def create_in_parts(self, name: str, parts: Iterator[bytes]) -> bool:
        # A second attempt to complete an upload may find the object of the first one.
        target = self.path(name)
        at = {"Bucket": self.target_bucket, "Key": self._key(name)}

        def begun() -> Any:
            return self.client.create_multipart_upload(**at, **self.writing)

        upload = {**at, "UploadId": self._request("create", target, begun)["UploadId"]}
        is_created = False
        try:
            sent = self._sent(target, {**upload, **self.reading}, parts)
            is_created = self._completed(target, {**upload, **self.reading}, sent)
        finally:
            if not is_created:
                # If the process is killed, the bucket's rule for incomplete uploads applies.
                with suppress(Exception):
                    self.client.abort_multipart_upload(**upload, **self.listing)
        return is_created

    def _sent(
        self, target: str, upload: Mapping[str, Any], parts: Iterator[bytes]
    ) -> Sequence[Mapping[str, Any]]:
        tags: dict[int, str] = {}
        for number, part in enumerate(parts, 1):
            send = partial(self.client.upload_part, **upload, PartNumber=number, Body=part)
            tags[number] = self._request("create", target, send)["ETag"]
        return [{"PartNumber": number, "ETag": tag} for number, tag in tags.items()]

    def _completed(
        self, target: str, upload: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]
    ) -> bool:
        def completed() -> bool:
            try:
                self.client.complete_multipart_upload(
                    **upload, MultipartUpload={"Parts": parts}, IfNoneMatch="*"
                )
            except self.client.exceptions.ClientError as error:
                if _status(error) == _ALREADY_THERE:
                    return False
                raise
            return True

        return self._request("create", target, completed)

    def delete(self, name: str) -> None:
        def deleted() -> None:
            self.client.delete_object(
                Bucket=self.target_bucket, Key=self._key(name), **self.listing
            )

        self._request("delete", self.path(name), deleted)

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        return self._get(name, {"Range": f"bytes={offset}-{offset + length - 1}"})

    def _get(self, name: str, part: Mapping[str, str]) -> bytes:
        from botocore.exceptions import BotoCoreError

        def got() -> Any:
            key = self._key(name)
            try:
                parameters = {"Bucket": self.target_bucket, "Key": key, **self.reading, **part}
                return self.client.get_object(**parameters)
            except self.client.exceptions.ClientError as error:
                if _status(error) == _BEYOND_THE_END:
                    return {"Body": BytesIO(), "Metadata": {}}
                raise

        began = time.monotonic()
        for _ in range(_BODY_ATTEMPTS):
            answer = self._request("get", self.path(name), got)
            try:
                data = bytes(answer["Body"].read())
                # Parts are verified by the checksums of frames and cuts.
                if not part:
                    self._check(name, answer["Metadata"], data)
                return data
            except BotoCoreError as error:
                # boto3 retries requests, but not failures while a response is read.
                broken = error
        raise _unavailable("get", self.path(name), _BODY_ATTEMPTS, began, broken) from broken

    def _check(self, name: str, metadata: Mapping[str, str], whole: bytes) -> None:
        detail = misplaced(metadata, self._key(name))
        if detail is None and self.is_compared:
            detail = changed(metadata, whole)
        if detail is not None:
            raise error_of("CLEANCUT_CUT_CORRUPTED", path=self.path(name), detail=detail)

    def _request(self, operation: str, target: str, request: Callable[[], Answer]) -> Answer:
        """The response to a request, which boto3 retries.

        Raises:
            FileNotFoundError: the object does not exist.
            RequestError: CLEANCUT_OBJECT_STORE_REFUSED.
            RetryableError: CLEANCUT_OBJECT_STORE_UNAVAILABLE.
        """
        from botocore import exceptions as boto

        began = time.monotonic()
        try:
            return request()
        except boto.ClientError as error:
            answer, status = error.response["Error"], _status(error)
            code, message = answer.get("Code"), answer.get("Message") or "no message"
            if status == _NOT_FOUND and code != "NoSuchBucket":
                raise FileNotFoundError(target) from error
            detail = f"{message} ({status} {code})"
            if status < _SERVER_ERRORS and status != _TOO_MANY:
                raise _refused(operation, target, detail) from error
            attempts = error.response["ResponseMetadata"].get("RetryAttempts", 0) + 1
            raise _unavailable(operation, target, attempts, began, detail) from error
        except boto.SSLError as error:
            raise _refused(operation, target, f"{error} ({_TRUST})") from error
        except (boto.HTTPClientError, boto.ConnectionError) as error:
            raise _unavailable(operation, target, _ATTEMPTS, began, error) from error
        except boto.BotoCoreError as error:
            raise _refused(operation, target, error) from error


def open_s3(location: str, below: str, access: S3Access, client: Any = None) -> S3Objects:
    """Objects below a location such as `s3://bucket/prefix`; no request is made.

    Args:
        location: the location.
        below: directory below the location.
        access: how to reach the bucket.
        client: a client with the same access for another location; None creates one, which takes
            some time.

    Raises:
        RequestError: CLEANCUT_OBJECT_LOCATION_INVALID, CLEANCUT_DEPENDENCY_MISSING or
            CLEANCUT_OBJECT_STORE_REFUSED.
    """
    match = _LOCATION.fullmatch(location)
    if match is None or _BUCKET.fullmatch(match[1]) is None:
        bucket = "" if match is None else match[1]
        raise _invalid(location, f"'{bucket}' is not the name of a bucket")
    prefix = match[2].removesuffix("/")
    problem = _problem(prefix) if prefix else None
    if problem is not None:
        raise _invalid(location, f"its path {problem}")
    root = "/".join(filter(None, (prefix, below)))
    client = _client(location, access) if client is None else client
    target_bucket = access.options.get("access_point") or match[1]
    requests, reads, writes = access.of_requests(), access.of_reads(), access.of_writes()
    return S3Objects(client, match[1], root, target_bucket, requests, reads, writes)


def _problem(prefix: str) -> str | None:
    """The reason why a prefix is invalid, as on the JVM side; None if it is valid."""
    segments = prefix.split("/")
    refused = (c for c in prefix if unicodedata.category(c) in ("Cc", "Cs"))
    if "" in segments:
        return "has an empty segment"
    if "." in segments or ".." in segments:
        return "has a segment '.' or '..'"
    if (character := next(refused, None)) is not None:
        return f"has the character U+{ord(character):04X}"
    if len(f"{prefix}/".encode()) > _MAX_PREFIX_BYTES:
        return f"has more than {_MAX_PREFIX_BYTES} bytes"
    return None


def _client(location: str, access: S3Access) -> Any:
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ImportError as error:
        raise missing_package(location, package="boto3", extra="s3") from error
    named = (os.environ.get(name) for name in _ENDPOINT_VARIABLES)
    options = access.options
    url, region = options.get("endpoint") or next(filter(None, named), None), options.get("region")
    host = "" if url is None else urlsplit(url).hostname or ""
    is_aws = url is None or host.endswith((".amazonaws.com", ".amazonaws.com.cn"))
    try:
        session = boto3.Session(profile_name=options.get("profile"))
        if region is None and host.endswith(".r2.cloudflarestorage.com"):
            region = "auto"
        config = Config(
            connect_timeout=_TIMEOUT_S,
            read_timeout=_TIMEOUT_S,
            # A dataflow has more concurrent requests than one checkpoint.
            max_pool_connections=2 * THREADS,
            response_checksum_validation="when_required",
            retries={"total_max_attempts": _ATTEMPTS, "mode": "standard"},
            # The name of an access point is part of the host name.
            s3={"addressing_style": "auto" if is_aws or options.get("access_point") else "path"},
        )
        # Compatible stores often ignore it, but a signature requires a region.
        place = region or session.region_name or "us-east-1"
        return session.client("s3", endpoint_url=url, region_name=place, config=config)
    except (BotoCoreError, ValueError) as error:
        raise _refused("open", location, error) from error


def _status(error: Any) -> int:
    return int(error.response["ResponseMetadata"]["HTTPStatusCode"])


def _invalid(location: str, detail: str) -> CleancutError:
    return error_of("CLEANCUT_OBJECT_LOCATION_INVALID", location=location, detail=detail)


def _refused(operation: str, target: str, detail: object) -> CleancutError:
    text = str(detail).rstrip(".")
    return error_of(
        "CLEANCUT_OBJECT_STORE_REFUSED", operation=operation, target=target, detail=text
    )


def _unavailable(
    operation: str, target: str, attempts: int, began: float, detail: object
) -> CleancutError:
    return error_of(
        "CLEANCUT_OBJECT_STORE_UNAVAILABLE",
        operation=operation,
        target=target,
        attempts=attempts,
        waitedMs=round(1000 * (time.monotonic() - began)),
        detail=str(detail).rstrip("."),
    )
