"""Objects in a bucket of S3, R2 or a compatible store, read through boto3."""

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

from cleancut._storage.access import S3Access
from cleancut._storage.objects import Stored
from cleancut._storage.parallel import THREADS
from cleancut._storage.written import changed, misplaced
from cleancut.errors import CleancutError, error_of

SCHEMES = ("s3://", "s3a://")

_LOCATION = re.compile(r"s3a?://([^/]*)/?(.*)", re.DOTALL)
# Half of what S3 and R2 allow for a key; the other half is for names below the location.
_MAX_PREFIX_BYTES = 512
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_TRUST = "AWS_CA_BUNDLE can name a file with the certificate of the authority to be trusted"
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

    What the store cannot answer now is a RetryableError after some repetitions, what it will not
    answer a RequestError.

    Attributes:
        client: boto3's client; threads may share it.
        bucket: the name of the bucket.
        root: what the keys of all objects begin with, without a slash at the end; may be empty.
        asked_at: the bucket, or the access point in its place.
        listing: what a listing says beside that.
        reading: what a read says beside that.
        writing: what a write says beside the same.
        is_compared: whether what is read whole is compared with the checksum that it was written
            with, for objects that have none inside.
    """

    client: Any
    bucket: str
    root: str
    asked_at: str
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
        return {name: of.size for name, of in self.details(below).items()}

    def details(self, below: str) -> Mapping[str, Stored]:
        prefix = self._key("")

        def listed() -> dict[str, Stored]:
            pages = self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.asked_at, Prefix=f"{prefix}{below}/", **self.listing
            )
            return {
                found["Key"].removeprefix(prefix): Stored(
                    found["Size"], round(found["LastModified"].timestamp() * 1000)
                )
                for page in pages
                for found in page.get("Contents", [])
            }

        return self._asked("list", self.path(below), listed)

    def read(self, name: str) -> bytes:
        return self._get(name, {})

    def create(self, name: str, data: bytes) -> bool:
        def put() -> bool:
            try:
                asked = {"Bucket": self.asked_at, "Key": self._key(name), **self.writing}
                self.client.put_object(Body=data, IfNoneMatch="*", **asked)
            except self.client.exceptions.ClientError as error:
                if _status(error) == _ALREADY_THERE:
                    return False
                raise
            return True

        return self._asked("create", self.path(name), put)

    def create_in_parts(self, name: str, parts: Iterator[bytes]) -> bool:
        # A second attempt to complete an upload may find the object of the first one.
        target = self.path(name)
        at = {"Bucket": self.asked_at, "Key": self._key(name)}

        def begun() -> Any:
            return self.client.create_multipart_upload(**at, **self.writing)

        upload = {**at, "UploadId": self._asked("create", target, begun)["UploadId"]}
        is_created = False
        try:
            sent = self._sent(target, {**upload, **self.reading}, parts)
            is_created = self._completed(target, {**upload, **self.reading}, sent)
        finally:
            if not is_created:
                # Of a process that is killed, the bucket's rule for incomplete uploads does it.
                with suppress(Exception):
                    self.client.abort_multipart_upload(**upload, **self.listing)
        return is_created

    def _sent(
        self, target: str, upload: Mapping[str, Any], parts: Iterator[bytes]
    ) -> Sequence[Mapping[str, Any]]:
        tags: dict[int, str] = {}
        for number, part in enumerate(parts, 1):
            send = partial(self.client.upload_part, **upload, PartNumber=number, Body=part)
            tags[number] = self._asked("create", target, send)["ETag"]
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

        return self._asked("create", target, completed)

    def delete(self, name: str) -> None:
        def deleted() -> None:
            self.client.delete_object(Bucket=self.asked_at, Key=self._key(name), **self.listing)

        self._asked("delete", self.path(name), deleted)

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        return self._get(name, {"Range": f"bytes={offset}-{offset + length - 1}"})

    def _get(self, name: str, part: Mapping[str, str]) -> bytes:
        from botocore.exceptions import BotoCoreError

        def got() -> Any:
            key = self._key(name)
            try:
                asked = {"Bucket": self.asked_at, "Key": key, **self.reading, **part}
                return self.client.get_object(**asked)
            except self.client.exceptions.ClientError as error:
                if _status(error) == _BEYOND_THE_END:
                    return {"Body": BytesIO(), "Metadata": {}}
                raise

        began = time.monotonic()
        for _ in range(_BODY_ATTEMPTS):
            answer = self._asked("get", self.path(name), got)
            try:
                data = bytes(answer["Body"].read())
                # A part is what its frames and the cut's checksums say, wherever it lies.
                if not part:
                    self._check(name, answer["Metadata"], data)
                return data
            except BotoCoreError as error:
                # boto3 repeats requests, but not what breaks while their answer is read.
                broken = error
        raise _unavailable("get", self.path(name), _BODY_ATTEMPTS, began, broken) from broken

    def _check(self, name: str, metadata: Mapping[str, str], whole: bytes) -> None:
        detail = misplaced(metadata, self._key(name))
        if detail is None and self.is_compared:
            detail = changed(metadata, whole)
        if detail is not None:
            raise error_of("CLEANCUT_CUT_CORRUPTED", path=self.path(name), detail=detail)

    def _asked(self, operation: str, target: str, request: Callable[[], Answer]) -> Answer:
        """The answer to a request, which boto3 repeats.

        Raises:
            FileNotFoundError: there is no such object.
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
        location: the place.
        below: the directory at that place.
        access: how the bucket is asked.
        client: one that was opened with the same access, for another place; None makes one, which
            takes some time.

    Raises:
        RequestError: CLEANCUT_OBJECT_LOCATION_INVALID, CLEANCUT_DEPENDENCY_MISSING or
            CLEANCUT_OBJECT_STORE_REFUSED.
    """
    found = _LOCATION.fullmatch(location)
    if found is None or _BUCKET.fullmatch(found[1]) is None:
        bucket = "" if found is None else found[1]
        raise _invalid(location, f"'{bucket}' is not the name of a bucket")
    prefix = found[2].removesuffix("/")
    problem = _problem(prefix) if prefix else None
    if problem is not None:
        raise _invalid(location, f"its path {problem}")
    root = "/".join(filter(None, (prefix, below)))
    client = _client(location, access) if client is None else client
    asked_at = access.options.get("access_point") or found[1]
    requests, reads, writes = access.of_requests(), access.of_reads(), access.of_writes()
    return S3Objects(client, found[1], root, asked_at, requests, reads, writes)


def _problem(prefix: str) -> str | None:
    """Why a prefix cannot be that of a location, as the JVM side says it; None if it can."""
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
        raise error_of(
            "CLEANCUT_DEPENDENCY_MISSING", feature=location, package="boto3", extra="s3"
        ) from error
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
            # A dataflow has more requests under way than one checkpoint.
            max_pool_connections=2 * THREADS,
            response_checksum_validation="when_required",
            retries={"total_max_attempts": _ATTEMPTS, "mode": "standard"},
            # The name of an access point stands in the host.
            s3={"addressing_style": "auto" if is_aws or options.get("access_point") else "path"},
        )
        # Compatible stores rarely care, but a signature needs some region.
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
