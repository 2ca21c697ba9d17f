"""Access to a bucket: its options as keyword arguments, and the parameters of its requests."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypedDict, get_args, get_type_hints

from cleancut._keywords import check_keywords
from cleancut.errors import error_of

_KEY_BYTES = 32


class S3Options(TypedDict, total=False):
    """The keyword arguments of functions that access an `s3://` location.

    Credentials are found by boto3: in the environment, in `~/.aws`, or by the role of the machine.
    """

    endpoint: Annotated[
        str | None,
        "the URL of an S3-compatible store; without it AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL of "
        "the environment, or AWS",
    ]
    region: Annotated[
        str | None,
        "region of the signature; without it that of the environment, or the store's default",
    ]
    access_point: Annotated[
        str | None,
        "the ARN of an access point that receives requests instead of the bucket",
    ]
    requester_pays: Annotated[
        bool,
        "whether requests state that the requester pays",
    ]
    encryption: Annotated[
        str | None,
        "encryption of new objects, as in the key `s3.encryption`: s3, kms, kms:<key> or "
        "customer:<file>; reads require only the last one",
    ]
    profile: Annotated[
        str | None,
        "profile of the AWS configuration with the credentials",
    ]


# The description of each, by name.
S3_OPTIONS: Mapping[str, str] = {
    name: get_args(hint)[1] for name, hint in get_type_hints(S3Options, include_extras=True).items()
}


@dataclass(frozen=True)
class S3Access:
    """How to reach a bucket.

    Attributes:
        options: the given options; None stands for an option that was not given.
    """

    options: S3Options = field(default_factory=S3Options)

    def __post_init__(self) -> None:
        check_keywords(self.options, S3_OPTIONS)

    @property
    def is_default(self) -> bool:
        """Whether no option was given."""
        return not any(self.options.values())

    def of_requests(self) -> dict[str, str]:
        """The parameters of each request."""
        return {"RequestPayer": "requester"} if self.options.get("requester_pays") else {}

    def of_reads(self) -> dict[str, Any]:
        """The parameters of a request that reads an object.

        Raises:
            RequestError: CLEANCUT_OBJECT_STORE_REFUSED, the file has no customer's key.
        """
        kind, path = self._encryption
        if kind != "customer":
            return self.of_requests()
        try:
            key = base64.b64decode(Path(path).read_bytes())
        except (OSError, binascii.Error) as error:
            raise _key_refused(path, f"a customer's key cannot be read: {error}") from error
        if len(key) != _KEY_BYTES:
            detail = f"it has {len(key)} bytes in base64 and not the {_KEY_BYTES} of a key"
            raise _key_refused(path, detail)
        # boto3 encodes it and adds its digest.
        return self.of_requests() | {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": key}

    def of_writes(self) -> dict[str, Any]:
        """The parameters of a request that writes an object. Raises as `of_reads` does."""
        kind, key = self._encryption
        said: dict[str, Any] = self.of_reads()
        if kind == "s3":
            said["ServerSideEncryption"] = "AES256"
        elif kind in ("kms", "kms-bucket-key"):
            said |= {"ServerSideEncryption": "aws:kms", "BucketKeyEnabled": kind != "kms"}
            said |= {"SSEKMSKeyId": key} if key else {}
        return said

    @property
    def _encryption(self) -> tuple[str, str]:
        """The kind, and the key or file that follows it."""
        kind, _, rest = (self.options.get("encryption") or "").partition(":")
        return kind, rest


def _key_refused(path: str, detail: str) -> Exception:
    return error_of(
        "CLEANCUT_OBJECT_STORE_REFUSED", operation="open", target=path, detail=detail.rstrip(".")
    )
