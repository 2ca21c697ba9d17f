"""Locations of checkpoints in a bucket, and locations that queries and readers refuse."""

import random
from typing import Any

_SEED = 48
_COUNT = 150
# Plain characters, and those with a meaning in Hadoop, URIs, XML, shells or file systems.
_CHARACTERS = "aZ0-_.%+ @:=#?&*[]{}()!$'\",;<>|^~`\\äß漢😀\u2028"
_REFUSED_CHARACTERS = "\0\t\n\r\x1b\x7f\x85"
_SEGMENTS = ("", ".", "..")


def _segment(draw: random.Random) -> str:
    text = "".join(draw.choice(_CHARACTERS) for _ in range(draw.randint(1, 6)))
    return f"x{text}" if text in _SEGMENTS else text


def _prefix(draw: random.Random) -> list[str]:
    return [_segment(draw) for _ in range(draw.randint(1, 4))]


def _accepted() -> list[dict[str, str]]:
    draw = random.Random(_SEED)
    named = ["a b", "+", "@home", "12:30", ".hidden", "...", "a%20b", "%", "ümlaut", "a=b/c d", " "]
    prefixes = ["", *named, *("/".join(_prefix(draw)) for _ in range(_COUNT))]
    return [{"location": f"s3://bucket/{prefix}", "prefix": prefix} for prefix in prefixes] + [
        {"location": "s3://bucket", "prefix": ""},
        {"location": "s3://bucket/a b/", "prefix": "a b"},
        {"location": f"s3://bucket/{'x' * 511}", "prefix": "x" * 511},
    ]


def _refused() -> list[str]:
    draw = random.Random(_SEED + 1)
    refused = ["//a", "/a//", "/a//b", "/./a", "/a/.", "/..", "/a/../b", f"/{'x' * 512}"]
    for _ in range(_COUNT):
        segments = _prefix(draw)
        at = draw.randrange(len(segments))
        if draw.random() < 0.5:
            segments.insert(at, draw.choice(_SEGMENTS))
        else:
            segments[at] += draw.choice(_REFUSED_CHARACTERS) + "x"
        refused.append("/" + "/".join(segments))
    return [f"s3://bucket{prefix}" for prefix in refused]


LOCATIONS: dict[str, Any] = {"accepted": _accepted(), "refused": _refused()}
