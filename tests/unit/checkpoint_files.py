"""Writes checkpoints for tests with the encoder of the test vectors."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.vectors.frame_cases import FAMILY, version_id
from tests.vectors.frame_encoder import Change, encode_frame

NOTE = {"format": "cleancut", "version": 1, "queryId": None}


def name_of(version: int, kind: str = "delta", own_id: str | None = None) -> str:
    return f"{version:020d}-{own_id or version_id(version)}.{kind}"


class CheckpointFiles:
    """A checkpoint that grows; all its stores have the schemas of the test vectors."""

    def __init__(self, location: Path, note: Mapping[str, Any] | None = None) -> None:
        self.location = location
        self.root = location / "cleancut"
        self.root.mkdir(parents=True)
        (self.root / "format.json").write_text(json.dumps(note or NOTE), encoding="utf-8")

    def directory(self, operator: int, partition: int, store: str = "default") -> Path:
        return self.root / "stores" / str(operator) / str(partition) / store

    def delta(
        self,
        version: int,
        changes: Sequence[Change],
        keys: int,
        *,
        operator: int = 0,
        partition: int = 0,
        store: str = "default",
        families: Sequence[Mapping[str, Any]] = (FAMILY,),
    ) -> Path:
        """Adds the delta that follows the previous version."""
        parent: dict[str, Any] = {"parentVersion": version - 1}
        if version > 1:
            parent["parentId"] = version_id(version - 1)
        place = {"operator": operator, "partition": partition, "store": store, "version": version}
        identity = place | {"id": version_id(version)} | parent | {"families": list(families)}
        return self._write("delta", identity, changes, keys)

    def base(
        self,
        version: int,
        rows: Sequence[Change],
        *,
        operator: int = 0,
        partition: int = 0,
        store: str = "default",
    ) -> Path:
        """Adds a base."""
        place = {"operator": operator, "partition": partition, "store": store, "version": version}
        identity = place | {"id": version_id(version), "families": [FAMILY]}
        return self._write("base", identity, rows, len(rows))

    def _write(
        self, kind: str, identity: Mapping[str, Any], changes: Sequence[Change], keys: int
    ) -> Path:
        blocks = [changes] if changes else []
        data = encode_frame(kind, identity, blocks, keys, codec="zstd").joined()
        store = str(identity["store"])
        directory = self.directory(identity["operator"], identity["partition"], store)
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / name_of(identity["version"], kind)
        path.write_bytes(data)
        return path
