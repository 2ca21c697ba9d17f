"""Results of planted defects, stored next to the catalogue."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

PLACE = Path(__file__).with_name("results.json")


@dataclass(frozen=True)
class Result:
    """The last result of a planted defect.

    Attributes:
        area: the part of the system.
        defect: what is wrong.
        by: the test that found it; None if none did.
        runs: the number of runs until then; None if the test is no search.
    """

    area: str
    defect: str
    by: str | None
    runs: int | None = None


def read(place: Path = PLACE) -> list[Result]:
    """Reads the results, in the order of the catalogue."""
    if not place.exists():
        return []
    return [Result(**fields) for fields in json.loads(place.read_text(encoding="utf-8"))]


def add(results: Iterable[Result], known: Iterable[tuple[str, str]], place: Path = PLACE) -> None:
    """Stores results over earlier ones of the same defects.

    Args:
        results: the new results.
        known: area and defect of each planted defect; results of others are dropped.
        place: the file.
    """
    by_defect = {(result.area, result.defect): result for result in (*read(place), *results)}
    kept = [asdict(by_defect[key]) for key in known if key in by_defect]
    place.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
