"""The objects of a dataflow, as FORMAT.md specifies them."""

from typing import Any

_A, _B = "0123456789abcdef" * 2, "fedcba9876543210" * 2
_PIN = "flow-5320dff0-7-3-1"

NOTE: dict[str, Any] = {"formatVersion": 1, "format": "cleancut-dataflow", "id": "5320dff0"}
MEMBER: dict[str, Any] = {
    "formatVersion": 1,
    "name": "orders",
    "checkpoint": "s3://bucket/checkpoints/orders",
    "addedMs": 1_790_000_000_000,
}
VECTOR: dict[str, Any] = {
    "formatVersion": 1,
    "kind": "vector",
    "number": 7,
    "generation": 3,
    "token": _A,
    "writtenMs": 1_790_000_060_000,
    "members": [
        {
            "name": "orders",
            "checkpoint": "s3://bucket/checkpoints/orders",
            "queryId": "b3a7c9d2-51f0-4c8e-8f7a-2d9e4b6c1a05",
            "epoch": 41,
            "token": _A,
            "writtenMs": 1_790_000_059_000,
            "pin": _PIN,
            "newest": 41,
            "why": None,
            "acts": [[38, 35]],
        },
        {
            "name": "report",
            "checkpoint": "s3://bucket/checkpoints/report",
            "queryId": None,
            "epoch": -1,
            "token": "",
            "writtenMs": 0,
            "pin": None,
            "newest": -1,
            "why": None,
            "acts": [],
        },
        {
            "name": "totals",
            "checkpoint": "s3://bucket/checkpoints/totals",
            "queryId": "6e1f2a0c-8d3b-4b52-9a61-0c1f5e7d9b42",
            "epoch": 17,
            "token": _B,
            "writtenMs": 1_790_000_058_000,
            "pin": _PIN,
            "newest": 18,
            "why": "epoch 18 has consumed epoch 42 of orders through source 0, and orders is at "
            "epoch 41",
            "acts": [],
        },
    ],
    "edges": [
        {
            "channel": "s3://bucket/channels/orders",
            "sender": "orders",
            "receiver": "totals",
            "source": "0",
            "consumed": 39,
            "attempt": _B,
            "sent": 41,
            "acts": [[38, 35]],
        },
        {
            "channel": "s3://bucket/channels/rates",
            "sender": None,
            "receiver": "totals",
            "source": "1",
            "consumed": -1,
            "attempt": None,
            "sent": None,
            "acts": [],
        },
    ],
    "asked": {"totals": "it has not committed epoch 19 in time"},
}
BEGIN: dict[str, Any] = {
    "formatVersion": 1,
    "kind": "begin",
    "number": 6,
    "generation": 3,
    "token": _B,
    "writtenMs": 1_790_000_000_000,
    "members": [],
    "edges": [],
    "asked": {},
}
ANSWER: dict[str, Any] = {"formatVersion": 1, "epoch": 19, "closing": True}

RECORDS = {"note": NOTE, "member": MEMBER, "vector": VECTOR, "begin": BEGIN, "answer": ANSWER}
