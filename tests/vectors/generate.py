"""Writes the test vectors: `python -m tests.vectors.generate` from the root of the project.

Vectors are stored and not generated at each run: a change of these files is a change of the format.
"""

import json
from pathlib import Path
from typing import Any

from tests.vectors import (
    chain_cases,
    checkpoint_cases,
    cut_cases,
    damage_cases,
    flow_cases,
    frame_cases,
    history_cases,
    layout_cases,
    location_cases,
    page_cases,
    referring_cases,
    segment_cases,
    store_cases,
)

HERE = Path(__file__).resolve().parent
_HEX_WIDTH = 64


def contents() -> dict[str, str]:
    """Returns the text of each vector file by its path below this directory."""
    files: dict[str, Any] = {
        "layout.json": layout_cases.LAYOUT,
        "locations.json": location_cases.LOCATIONS,
        "history/record.json": history_cases.RECORD,
    }
    files |= {f"dataflow/{name}.json": record for name, record in flow_cases.RECORDS.items()}
    hexes: dict[str, bytes] = {}
    sound = [source.case() for source in frame_cases.sources()]
    for frame in [*sound, *damage_cases.cases()]:
        files[f"frames/{frame.name}.json"] = frame.expectation()
        hexes[f"frames/{frame.name}.hex"] = frame.data
    for store in store_cases.stores():
        files[f"stores/{store.name}.json"] = store.expectation()
    folders = {
        "segments": segment_cases.segments(),
        "cuts": cut_cases.cuts(),
        "pages": page_cases.pages(),
    }
    for folder, objects in folders.items():
        for case in objects:
            files[f"{folder}/{case.name}.json"] = case.expectation()
            hexes[f"{folder}/{case.name}.hex"] = case.data
    for checkpoint in [*checkpoint_cases.checkpoints(), *referring_cases.checkpoints()]:
        files[f"checkpoints/{checkpoint.name}.json"] = checkpoint.expectation()
    for chain in chain_cases.chains():
        files[f"chains/{chain.name}.json"] = chain.expectation()
    texts = {
        path: json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        for path, value in files.items()
    }
    return texts | {path: hex_lines(data) for path, data in hexes.items()}


def hex_lines(data: bytes) -> str:
    """Returns bytes as lines of 64 hexadecimal digits."""
    digits = data.hex()
    lines = (digits[i : i + _HEX_WIDTH] for i in range(0, len(digits), _HEX_WIDTH))
    return "".join(f"{line}\n" for line in lines)


def main() -> None:
    texts = contents()
    for path in [*HERE.glob("*.json"), *HERE.glob("*/*.json"), *HERE.glob("*/*.hex")]:
        if path.relative_to(HERE).as_posix() not in texts:
            path.unlink()
    for name, text in texts.items():
        path = HERE / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print(f"{len(texts)} files")


if __name__ == "__main__":
    main()
