"""Object names and what they stand for."""

from typing import Any

_ID = "01923a4b5c6d7e8f8123456789abcdef"

LAYOUT: dict[str, Any] = {
    "frames": [
        {"name": f"{1:020d}-{_ID}.delta", "version": 1, "id": _ID, "kind": "delta"},
        {"name": f"{42:020d}-{_ID}.base", "version": 42, "id": _ID, "kind": "base"},
        {
            "name": f"{2**63 - 1:020d}-{_ID}.delta",
            "version": 2**63 - 1,
            "id": _ID,
            "kind": "delta",
        },
    ],
    "foreignFiles": [
        "",
        "_metadata",
        f".{7:020d}-{_ID}.delta.crc",
        f".{7:020d}-{_ID}.delta.5f1c.tmp",
        f"{0:020d}-{_ID}.delta",
        f"{2**63:020d}-{_ID}.delta",
        f"7-{_ID}.delta",
        f"{7:020d}-{_ID.upper()}.delta",
        f"{7:020d}-{_ID[1:]}.delta",
        f"{7:020d}-{_ID}.snapshot",
        f"{7:020d}-{_ID}.delta\n",
        f"0000000000000000000\u0667-{_ID}.delta",
    ],
    "stores": [
        {"operator": 0, "partition": 0, "store": "default", "directory": "stores/0/0/default"},
        {
            "operator": 12,
            "partition": 199,
            "store": "left-keyToNumValues",
            "directory": "stores/12/199/left-keyToNumValues",
        },
        {
            "operator": 0,
            "partition": 3,
            "store": "a b/c.é%",
            "directory": "stores/0/3/a%20b%2Fc%2E%C3%A9%25",
        },
        {"operator": 0, "partition": 3, "store": "..", "directory": "stores/0/3/%2E%2E"},
        {
            "operator": 0,
            "partition": 3,
            "store": "状态",
            "directory": "stores/0/3/%E7%8A%B6%E6%80%81",
        },
    ],
    "foreignDirectories": [
        "stores",
        "stores/0/0",
        "stores/0/0/",
        "stores/00/0/default",
        "stores/0/-1/default",
        "stores/0/0/a b",
        "stores/0/0/a%2fb",
        "stores/0/0/%41",
        "stores/0/0/%FF",
        "stores/0/0/default/deeper",
        "cuts/0/0/default",
    ],
}
