"""What Spark notes of a stateful operator: the version of the note, and JSON in the next line.

`org.apache.spark.sql.execution.streaming.state.OperatorStateMetadata`. Version 1 is one file for
the operator, and its schemas lie where its first partition has its stores. Version 2 is a file for
each epoch that wrote one, and names its schemas.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_FIRST = "v1"


@dataclass(frozen=True)
class OperatorStore:
    """A store of each partition of an operator.

    Attributes:
        name: Spark's name of it.
        partitions: how many there were when it was noted.
        schema_paths: where its schemas are, in version 2.
    """

    name: str
    partitions: int | None
    schema_paths: Sequence[str]


@dataclass(frozen=True)
class OperatorMetadata:
    """A note of an operator.

    Attributes:
        version: of the note.
        name: what Spark calls an operator of this kind.
        operator: Spark's id of it.
        stores: of each partition.
        map_variables: the variables of `transformWithState` that are maps.
    """

    version: str
    name: str
    operator: int
    stores: Sequence[OperatorStore]
    map_variables: frozenset[str]
    _body: Mapping[str, Any]

    @staticmethod
    def parse(data: bytes) -> "OperatorMetadata":
        """Reads a note.

        Raises:
            ValueError: it is none.
        """
        version, _, line = data.decode().partition("\n")
        try:
            body: dict[str, Any] = json.loads(line)
            info = body["operatorInfo"]
            stores = [
                OperatorStore(
                    of["storeName"],
                    of.get("numPartitions"),
                    of.get("stateSchemaFilePaths") or (),
                )
                for of in body["stateStoreInfo"]
            ]
            variables = json.loads(body.get("operatorPropertiesJson") or "{}").get("stateVariables")
            maps = frozenset(
                of["stateName"] for of in variables or () if of["stateVariableType"] == "MapState"
            )
            name, operator = str(info["operatorName"]), int(info["operatorId"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no note of an operator: {error}") from error
        return OperatorMetadata(version, name, operator, stores, maps, body)

    def schemas(self, home: str) -> list[str]:
        """The files with its schemas, below the checkpoint location.

        Args:
            home: the operator's directory there.
        """
        if self.version == _FIRST:
            parts = ("0" if of.name == "default" else f"0/{of.name}" for of in self.stores)
            return [f"{home}/{part}/_metadata/schema" for part in parts]
        paths = (path for of in self.stores for path in of.schema_paths)
        return [home + path.rpartition(home)[2] for path in paths if home in path]

    def moved(self, home: str, location: str) -> bytes:
        """The note as it is in a copy of the checkpoint in another place."""
        stores = [
            {**of, "stateSchemaFilePaths": _moved(of["stateSchemaFilePaths"], home, location)}
            if of.get("stateSchemaFilePaths")
            else of
            for of in self._body["stateStoreInfo"]
        ]
        body = json.dumps({**self._body, "stateStoreInfo": stores}, separators=(",", ":"))
        return f"{self.version}\n{body}".encode()


def _moved(paths: Sequence[str], home: str, location: str) -> list[str]:
    return [f"{location}/{home}{path.rpartition(home)[2]}" for path in paths]
