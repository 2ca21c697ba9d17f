"""Bytes and JSON that are compressed by zstd, with a separately stored length."""

import json
from typing import Any

import zstandard

# The limit of all writers; a greater length is corruption, and must not allocate memory.
MAX_RAW_BYTES = 1 << 30


def parse_zstd_json(stored: bytes, raw_size: int) -> Any:
    """Decompresses and parses JSON.

    Raises:
        ValueError: it is no zstd data, has another length, or is no JSON.
    """
    return json.loads(decompressed(stored, raw_size).decode())


def decompressed(stored: bytes, raw_size: int) -> bytes:
    """Decompresses bytes.

    Raises:
        ValueError: it is no zstd data, or has another length.
    """
    if raw_size > MAX_RAW_BYTES:
        raise ValueError(f"a length of {raw_size} bytes exceeds the limit of {MAX_RAW_BYTES}")
    # The length is known; a size in zstd's own header must not allocate anything else.
    try:
        if zstandard.frame_content_size(stored) not in (-1, raw_size):
            raise ValueError(f"zstd's own header does not say {raw_size} bytes")
        raw = zstandard.ZstdDecompressor().decompress(stored, max_output_size=raw_size)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    if len(raw) != raw_size:
        raise ValueError(f"it has {len(raw)} bytes and not {raw_size}")
    return raw
