"""Spark's metadata of a stateful operator: a version, and JSON in the next line.

`org.apache.spark.sql.execution.streaming.state.OperatorStateMetadata`. Version 1 is one file per
operator, and its schemas are next to the stores of the first partition. Version 2 is a file for
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
        name: Spark's name of the store.
        partitions: number of partitions when the metadata was written.
        schema_paths: paths of its schemas, in version 2.
    """

    name: str
    partitions: int | None
    schema_paths: Sequence[str]


@dataclass(frozen=True)
class OperatorMetadata:
    """The metadata of an operator.

    Attributes:
        version: version of the metadata.
        name: Spark's name of the operator.
        operator: Spark's operator id.
        stores: the stores of each partition.
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
        """Parses the metadata.

        Raises:
            ValueError: it is invalid.
        """
        version, _, line = data.decode().partition("\n")
        try:
            body: dict[str, Any] = json.loads(line)
            info = body["operatorInfo"]
            stores = [
                OperatorStore(
                    store["storeName"],
                    store.get("numPartitions"),
                    store.get("stateSchemaFilePaths") or (),
                )
                for store in body["stateStoreInfo"]
            ]
            variables = json.loads(body.get("operatorPropertiesJson") or "{}").get("stateVariables")
            maps = frozenset(
                store["stateName"]
                for store in variables or ()
                if store["stateVariableType"] == "MapState"
            )
            name, operator = str(info["operatorName"]), int(info["operatorId"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no metadata of an operator: {error}") from error
        return OperatorMetadata(version, name, operator, stores, maps, body)

    def schemas(self, home: str) -> list[str]:
        """The files with its schemas, below the checkpoint location.

        Args:
            home: the directory of the operator, below that location.
        """
        if self.version == _FIRST:
            parts = ("0" if store.name == "default" else f"0/{store.name}" for store in self.stores)
            return [f"{home}/{part}/_metadata/schema" for part in parts]
        paths = (path for store in self.stores for path in store.schema_paths)
        return [home + path.rpartition(home)[2] for path in paths if home in path]

    def moved(self, home: str, location: str) -> bytes:
        """The metadata for a copy of the checkpoint at another location."""
        stores = [
            {**store, "stateSchemaFilePaths": _moved(store["stateSchemaFilePaths"], home, location)}
            if store.get("stateSchemaFilePaths")
            else store
            for store in self._body["stateStoreInfo"]
        ]
        body = json.dumps({**self._body, "stateStoreInfo": stores}, separators=(",", ":"))
        return f"{self.version}\n{body}".encode()


def _moved(paths: Sequence[str], home: str, location: str) -> list[str]:
    return [f"{location}/{home}{path.rpartition(home)[2]}" for path in paths]
