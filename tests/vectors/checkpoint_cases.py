"""Checkpoints with cuts, and the results of reading their versions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.vectors.cut_encoder import Placed
from tests.vectors.cut_writer import Stored, cut_name, segment_name, write_segment
from tests.vectors.damage_cases import CORRUPTED, MISPLACED
from tests.vectors.frame_cases import put, remove, version_id
from tests.vectors.frame_encoder import Change
from tests.vectors.page_encoder import write_cut
from tests.vectors.segment_cases import CUT_CORRUPTED, base_of, delta_of, flipped
from tests.vectors.store_cases import (
    ADA,
    ADA_MORE,
    CHAIN,
    GRACE,
    LIN,
    MISSING,
    NO_GRACE,
    RETRY,
    Read,
)

EMMY = put(4, "emmy", 2, 8.0)


@dataclass(frozen=True)
class CheckpointCase:
    """One vector: objects by name below the root, and the result of reading partition 3."""

    name: str
    doc: str
    objects: Mapping[str, bytes]
    reads: Sequence[Read]

    def expectation(self) -> dict[str, Any]:
        return {
            "doc": self.doc,
            "store": {"operator": 0, "partition": 3, "store": "default"},
            "objects": {name: data.hex() for name, data in sorted(self.objects.items())},
            "reads": [read.expectation() for read in self.reads],
        }


def epochs() -> tuple[dict[str, bytes], dict[int, list[list[Stored]]]]:
    """Returns the objects of epochs 0 to 3 of two partitions, and the chains of each cut.

    Partition 3 has the rows of the vectors of directories; a base of its version 3 is written in
    epoch 3 by an executor.
    """
    rows: list[tuple[Sequence[Change], int]] = [([ADA, GRACE], 2), ([ADA_MORE, LIN], 3)]
    rows += [([NO_GRACE], 2), ([], 2)]
    objects: dict[str, bytes] = {}
    chains: dict[int, list[list[Stored]]] = {}
    for epoch, (changes, keys) in enumerate(rows):
        version = epoch + 1
        frames = [delta_of(version, changes, keys)]
        frames.append(delta_of(version, [EMMY] if epoch == 0 else [], 1, partition=4))
        name, parts, stored = write_segment(epoch, frames)
        objects[name] = parts.joined()
        before = chains.get(epoch - 1, [[], []])
        if epoch == 3:
            base = [base_of(3, [ADA_MORE, LIN], codec="zstd")]
            name, parts, placed = write_segment(epoch, base, writer="17", number=2)
            objects[name] = parts.joined()
            before = [placed, before[1]]
        chains[epoch] = [[*before[0], stored[0]], [*before[1], stored[1]]]
        objects |= write_cut(epoch, chains[epoch])
    return objects, chains


OBJECTS, CHAINS = epochs()
READS = [
    Read(1, [ADA, GRACE]),
    Read(2, [ADA_MORE, GRACE, LIN]),
    Read(3, [ADA_MORE, LIN]),
    Read(4, [ADA_MORE, LIN]),
]


def checkpoints() -> list[CheckpointCase]:
    """Returns all cases; the name is that of the file."""
    return [
        CheckpointCase("cuts", "Four cuts; the last builds on a base.", OBJECTS, READS),
        CheckpointCase(
            "foreign-names",
            "Names that a reader ignores.",
            OBJECTS
            | {"cuts/notes.txt": b"x", "cuts/7.cut": b"", f"cuts/{5:020d}.sealed": b""}
            | {f"segments/{2:020d}/.driver.tmp": b""},
            READS,
        ),
        *_after_level_0(),
        *_damaged_objects(),
        *_wrong_chains(),
    ]


def _after_level_0() -> Iterator[CheckpointCase]:
    """Level 0 up to version 2; its epoch 2 was interrupted, and run by level 1."""
    listed = {f"stores/0/3/default/{name}": data for name, data in CHAIN.items()}
    older = {name: data for name, data in listed.items() if f"{4:020d}" not in name}
    first = [base_of(3, [EMMY])]
    name, parts, base = write_segment(2, first)
    objects = older | {name: parts.joined()} | write_cut(2, [base])
    name, parts, delta = write_segment(3, [delta_of(4, [LIN], 2)])
    objects |= {name: parts.joined()} | write_cut(3, [[*base, *delta]])
    yield CheckpointCase(
        "after-level-0",
        "Versions 1 and 2 are in stores/, and so is a version 3 that was never committed.",
        objects,
        [*READS[:2], Read(3, [EMMY]), Read(4, [EMMY, LIN])],
    )


def _damaged_objects() -> Iterator[CheckpointCase]:
    second = segment_name(1)
    place = CHAINS[1][0][1].entry["offset"] + 100
    broken = [READS[0], Read(2, error=CORRUPTED), Read(3, error=CORRUPTED), READS[3]]
    yield CheckpointCase(
        "frame-flipped",
        "A flipped bit in the delta of version 2, which a base replaces for the last cut.",
        OBJECTS | {second: flipped(OBJECTS[second], place)},
        broken,
    )
    entry = CHAINS[1][0][1].entry
    yield CheckpointCase(
        "segment-cut-short",
        "A segment that ends inside the delta of version 2.",
        OBJECTS | {second: OBJECTS[second][: entry["offset"] + entry["length"] - 1]},
        broken,
    )
    gone = {name: data for name, data in OBJECTS.items() if name != second}
    missing = [READS[0], Read(2, error=MISSING), Read(3, error=MISSING), READS[3]]
    yield CheckpointCase("segment-missing", "A segment is gone.", gone, missing)
    third = segment_name(2)
    exchanged = OBJECTS | {second: OBJECTS[third], third: OBJECTS[second]}
    yield CheckpointCase(
        "segments-exchanged", "Two segments under each other's name.", exchanged, broken
    )
    cut = flipped(OBJECTS[cut_name(1)], 60)
    yield CheckpointCase(
        "cut-flipped",
        "A flipped bit in a cut; the others do not need it.",
        OBJECTS | {cut_name(1): cut},
        [READS[0], Read(2, error=CUT_CORRUPTED), *READS[2:]],
    )
    yield CheckpointCase(
        "cuts-exchanged",
        "Two cuts under each other's name.",
        OBJECTS | {cut_name(1): OBJECTS[cut_name(2)], cut_name(2): OBJECTS[cut_name(1)]},
        [READS[0], Read(2, error=CUT_CORRUPTED), Read(3, error=CUT_CORRUPTED), READS[3]],
    )


def _written(epoch: int, frames: Sequence[Placed]) -> tuple[dict[str, bytes], list[Stored]]:
    name, parts, stored = write_segment(epoch, frames)
    return {name: parts.joined()}, stored


def delta_of_another_attempt() -> tuple[dict[str, bytes], list[Stored]]:
    """Returns the objects of a delta of version 3 that applies to another frame of version 2, and
    its chain.
    """
    objects, stored = _written(9, [delta_of(3, [NO_GRACE], 2, parent_id=RETRY)])
    return objects, [*CHAINS[1][0], *stored]


def _wrong_chains() -> Iterator[CheckpointCase]:
    """Yields cuts that no writer should have written; all checksums are right."""
    first, second = CHAINS[1][0], CHAINS[2][0]

    def made(name: str, doc: str, chain: list[Stored], error: str) -> CheckpointCase:
        cut = write_cut(2, [chain, CHAINS[2][1]])
        reads = [*READS[:2], Read(3, error=error), READS[3]]
        return CheckpointCase(name, doc, OBJECTS | cut, reads)

    hole = [second[0], second[2]]
    yield made("chain-with-a-hole", "A delta within the chain is left out.", hole, CUT_CORRUPTED)
    without = second[1:]
    yield made(
        "chain-without-a-base", "It begins with a delta of version 2.", without, CUT_CORRUPTED
    )
    foreign = CHAINS[2][1][1].entry
    names = ("operator", "partition", "store", "version", "id", "kind")
    posing = Stored(CHAINS[2][1][1].segment, dict(foreign) | {n: first[1].entry[n] for n in names})
    yield made(
        "frame-of-another-partition",
        "The cut names the frame of another partition, with its checksum.",
        [second[0], posing, second[2]],
        MISPLACED,
    )
    entry = second[1].entry
    summed = Stored(second[1].segment, dict(entry) | {"crc": entry["crc"] ^ 1})
    yield made(
        "frame-checksum-of-the-cut",
        "The cut has another checksum of a frame that is sound by its own.",
        [second[0], summed, second[2]],
        CORRUPTED,
    )
    objects, stored = _written(9, [delta_of(3, [remove(2, "grace")], 7)])
    wrong_keys = made(
        "keys-differ", "A wrong number of live keys.", [*second[:2], *stored], CORRUPTED
    )
    yield CheckpointCase(
        wrong_keys.name, wrong_keys.doc, {**wrong_keys.objects, **objects}, wrong_keys.reads
    )
    assert second[1].entry["id"] == version_id(2)
    objects, chain = delta_of_another_attempt()
    cut = write_cut(2, [chain, CHAINS[2][1]])
    yield CheckpointCase(
        "delta-of-another-attempt",
        "A delta applies to the frame that another attempt wrote of the version before it.",
        OBJECTS | objects | cut,
        [*READS[:2], Read(3, error=CUT_CORRUPTED, names=cut_name(2)), READS[3]],
    )
