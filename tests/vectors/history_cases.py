"""A record of an epoch in a history."""

from typing import Any

RECORD: dict[str, Any] = {
    "version": 1,
    "location": "s3://bucket/query",
    "name": "orders",
    "queryId": "0a0f8b8e-8e5b-4d0f-9f5c-3f6d5c4b2a10",
    "runId": "7d1b7b0e-5a56-4b0c-8a43-1f2e3d4c5b6a",
    "generation": 3,
    "epoch": 41,
    "writtenMs": 1764288000123,
    "stores": 5,
    "timings": {
        "collectMs": 11,
        "cutMs": 9,
        "epochMs": 2300,
        "gateMs": 40,
        "offsetsMs": 2,
        "ownerMs": 27,
    },
    "costs": {
        "driver": {
            "requests": {"create": {"requests": 2, "retries": 0, "failures": 0}},
            "bytesSent": 9000,
            "bytesReceived": 10,
            "frames": 3,
            "frameBytes": 700,
            "segments": 1,
            "segmentBytes": 900,
            "sentMs": 21,
            "waitedMs": 0,
        },
        "executors": {
            "requests": {"put": {"requests": 4, "retries": 1, "failures": 0}},
            "bytesSent": 70000,
            "bytesReceived": 0,
            "frames": 2,
            "frameBytes": 69000,
            "segments": 2,
            "segmentBytes": 69500,
            "sentMs": 90,
            "waitedMs": 120,
            "count": 2,
        },
        "slowest": [
            {
                "operator": 0,
                "partition": 4,
                "store": "default",
                "executor": "1",
                "host": "10.0.0.7",
                "ms": 2210,
            }
        ],
    },
    "rowsInFlight": 12,
    "bytesInFlight": 480,
    "alignmentMs": 1900,
    "barrierToCaptureMs": 70,
    "aligned": {"1": "it has no exchange before it"},
    "rowsBeyondBound": {"0": 5},
    "operators": [
        {
            "operator": 0,
            "partitions": 5,
            "perCell": 1,
            "ms": [100, 110, 90, 105, 2210],
            "bytes": [50, 60, 55, 52, 483],
            "rows": [10, 11, 12, 10, 901],
        }
    ],
    "pauseMs": 4,
    "executorsLost": [{"executor": "3", "reason": "worker lost"}],
    "repeatedTasks": 1,
    "slow": {
        "typicalMs": 320,
        "kind": "straggler",
        "detail": "partition 4 of operator 0 took 2210 ms",
    },
}
