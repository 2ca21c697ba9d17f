"""Bytes and JSON that are stored as zstd, with their length told beside them."""

import json
from typing import Any

import zstandard

# No writer goes beyond it; a length that does is damage, and must not take memory.
MAX_RAW_BYTES = 1 << 30


def parse_zstd_json(stored: bytes, raw_size: int) -> Any:
    """What the JSON says.

    Raises:
        ValueError: it is no zstd, of another length, or no JSON.
    """
    return json.loads(decompressed(stored, raw_size).decode())


def decompressed(stored: bytes, raw_size: int) -> bytes:
    """What was stored.

    Raises:
        ValueError: it is no zstd, or of another length.
    """
    if raw_size > MAX_RAW_BYTES:
        raise ValueError(f"a length of {raw_size} bytes is beyond the {MAX_RAW_BYTES} of a writer")
    # The length is told beside it; a size in zstd's own header must not allocate anything else.
    try:
        if zstandard.frame_content_size(stored) not in (-1, raw_size):
            raise ValueError(f"zstd's own header does not say {raw_size} bytes")
        raw = zstandard.ZstdDecompressor().decompress(stored, max_output_size=raw_size)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    if len(raw) != raw_size:
        raise ValueError(f"it has {len(raw)} bytes and not {raw_size}")
    return raw
