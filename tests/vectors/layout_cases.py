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
    "cuts": [
        {"name": f"cuts/{0:020d}.cut", "epoch": 0},
        {"name": f"cuts/{41:020d}.cut", "epoch": 41},
        {"name": f"cuts/{2**63 - 2:020d}.cut", "epoch": 2**63 - 2},
    ],
    "segments": [
        {"name": f"segments/{0:020d}/driver-{_ID}.seg", "epoch": 0, "writer": "driver", "id": _ID},
        {"name": f"segments/{7:020d}/17-{_ID}.seg", "epoch": 7, "writer": "17", "id": _ID},
        {"name": f"segments/{7:020d}/a-b_2-{_ID}.seg", "epoch": 7, "writer": "a-b_2", "id": _ID},
    ],
    "owners": [
        {"name": f"owners/{1:020d}.json", "generation": 1},
        {"name": f"owners/{2**63 - 1:020d}.json", "generation": 2**63 - 1},
    ],
    "savepoints": [
        {"name": "savepoints/before-migration_2.cut", "savepoint": "before-migration_2"},
        {"name": f"savepoints/{'x' * 64}.cut", "savepoint": "x" * 64},
    ],
    "writers": [
        {"executor": "driver", "writer": "driver"},
        {"executor": "17", "writer": "17"},
        {"executor": "a.b/c-d_é1", "writer": "abc-d_1"},
        {"executor": "../é", "writer": "executor"},
    ],
    "foreignObjects": [
        "",
        "cuts",
        f"cuts/{7:020d}.sealed",
        f"cuts/.{7:020d}.cut.crc",
        f"cuts/{7:020d}.cut\n",
        "cuts/7.cut",
        f"cuts/{2**63:020d}.cut",
        "cuts/0000000000000000000\u0667.cut",
        f"segments/{7:020d}/{_ID}.seg",
        f"segments/{7:020d}/-{_ID}.seg",
        f"segments/{7:020d}/driver-{_ID.upper()}.seg",
        f"segments/{7:020d}/dri.ver-{_ID}.seg",
        f"segments/7/driver-{_ID}.seg",
        f"segments/{7:020d}/x/driver-{_ID}.seg",
        f"owners/{7:020d}.json.tmp",
        "owners/7.json",
        "savepoints/.cut",
        "savepoints/a b.cut",
        f"savepoints/{'x' * 65}.cut",
        "savepoints/a/b.cut",
        "savepoints/a.cut.tmp",
    ],
}
