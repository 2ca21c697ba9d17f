"""Results of comparisons, stored next to the idioms: a list of records for each kind of them."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

RESULTS = Path(__file__).with_name("results.json")
R = TypeVar("R")


@dataclass(frozen=True)
class Section(Generic[R]):
    """The records of one kind.

    Attributes:
        name: the name of the list.
        record: the dataclass of its records.
        key: the fields that identify a record.
    """

    name: str
    record: type[R]
    key: Sequence[str]

    def read(self, place: Path = RESULTS) -> list[R]:
        """Reads the records, in the order in which they were added."""
        return [self.record(**fields) for fields in _read(place).get(self.name, [])]

    def add(self, records: Iterable[R], place: Path = RESULTS) -> None:
        """Stores records, instead of earlier ones with the same key."""
        stored: list[Any] = [*self.read(place), *records]
        by_key = {tuple(getattr(one, field) for field in self.key): one for one in stored}
        sections = _read(place) | {self.name: [asdict(one) for one in by_key.values()]}
        place.write_text(
            json.dumps(sections, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )


def _read(place: Path) -> dict[str, list[dict[str, Any]]]:
    if not place.exists():
        return {}
    sections: dict[str, list[dict[str, Any]]] = json.loads(place.read_text(encoding="utf-8"))
    return sections
