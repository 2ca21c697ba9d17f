"""Checkpoints with bases that reference others, and the results of reading their versions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.vectors.checkpoint_cases import (
    CHAINS,
    EMMY,
    OBJECTS,
    READS,
    CheckpointCase,
    delta_of_another_attempt,
)
from tests.vectors.cut_encoder import Placed
from tests.vectors.cut_writer import Stored, write_segment
from tests.vectors.damage_cases import CORRUPTED
from tests.vectors.frame_cases import identity_of, put
from tests.vectors.frame_encoder import (
    CODECS,
    EMPTY_INDEX,
    KINDS,
    TRAILER_SIZE,
    Change,
    encode_block,
    encode_header,
    encode_trailer,
)
from tests.vectors.page_encoder import PageBody, page_body, write_cut
from tests.vectors.segment_cases import base_of, delta_of, flipped
from tests.vectors.store_cases import ADA_MORE, GRACE, LIN, MISSING, Read

# The operation is epoch 5; version 5 was never written.
ACT = 5
PARTITION = 3
OF_THREE, OF_FOUR = CHAINS[3]
# Of 16 people, those in partition 3 of 5 by Spark's hash of id and name.
PEOPLE = [put(number, f"person-{number}", number, number / 2) for number in range(1, 17)]
OURS = [PEOPLE[number - 1] for number in (3, 4, 6, 10)]
# The same people in partitions 0 and 1 of 2.
EVEN, ODD = (3, 2, 5, 8, 9, 11, 13), (4, 1, 6, 7, 10, 12, 14, 15, 16)
WHOLE_KEY = {"default": [[0], [1]]}
BY_WHOLE_KEY = {"partitions": 5, "sourcePartitions": 1, "keys": WHOLE_KEY}


def referring(
    version: int,
    chains: Sequence[Sequence[Stored]],
    *,
    spread: Mapping[str, Any] | None = None,
    body: PageBody | None = None,
    count: int | None = None,
    partition: int = 3,
) -> Placed:
    """Returns a base of these chains, in ascending order of their stores."""
    identity = identity_of(version) | {"partition": partition}
    identity |= {"spread": spread} if spread is not None else {}
    header, raw_identity = encode_header(identity, KINDS["reference"], CODECS["none"])
    seed = int.from_bytes(header[12:16], "little")
    raw = (body or page_body(chains)).joined()
    sources = len(chains) if count is None else count
    block = encode_block(raw, sources, seed, 0, "none")
    size = len(header) + len(raw_identity) + len(block) + len(EMPTY_INDEX) + TRAILER_SIZE
    end = encode_trailer(seed, 1, sources, 0, size)
    return Placed(identity, "base", header + raw_identity + block + end, attempt=0)


def act(
    base: Placed, epoch: int = ACT, **fields: Any
) -> tuple[dict[str, bytes], list[list[Stored]]]:
    """Returns the objects of an epoch with only this base, and its chains."""
    name, parts, stored = write_segment(epoch, [base])
    return {name: parts.joined()} | write_cut(epoch, [stored], **fields), [stored]


def followed(
    chains: Sequence[Sequence[Stored]], changes: Sequence[Change], keys: int, epoch: int = ACT + 1
) -> tuple[dict[str, bytes], list[list[Stored]]]:
    """Returns the objects of the next epoch, and its chains."""
    name, parts, stored = write_segment(epoch, [delta_of(epoch + 1, changes, keys)])
    after = [[*chains[0], stored[0]]]
    return {name: parts.joined()} | write_cut(epoch, after), after


def checkpoints() -> list[CheckpointCase]:
    """Returns all cases; the name is that of the file."""
    return [*_sound(), *_of_some_rows(), *_damaged(), *_misplaced_keys()]


def _sound() -> Iterator[CheckpointCase]:
    objects, chains = act(referring(ACT + 1, [OF_THREE]))
    more, after = followed(chains, [GRACE], 3)
    yield CheckpointCase(
        "refers-to-one",
        "A base that references an earlier chain of its store, and a delta after it.",
        OBJECTS | objects | more,
        [*READS, Read(6, [ADA_MORE, LIN]), Read(7, [ADA_MORE, GRACE, LIN])],
    )
    again, _ = act(referring(9, after), epoch=8)
    yield CheckpointCase(
        "refers-to-what-refers",
        "A base that references a chain that begins with another such base.",
        OBJECTS | objects | more | again,
        [Read(9, [ADA_MORE, GRACE, LIN])],
    )
    several, chains = act(referring(ACT + 1, [OF_THREE, OF_FOUR]))
    more, _ = followed(chains, [GRACE], 4)
    yield CheckpointCase(
        "refers-to-several",
        "A base that has the rows of two stores, as where their number is halved.",
        OBJECTS | several | more,
        [Read(6, [ADA_MORE, EMMY, LIN]), Read(7, [ADA_MORE, EMMY, GRACE, LIN])],
    )


def _people() -> tuple[dict[str, bytes], list[Stored]]:
    name, parts, stored = write_segment(4, [base_of(5, PEOPLE, partition=0)], number=7)
    return {name: parts.joined()}, stored


def _halves(*more: Change) -> tuple[dict[str, bytes], list[list[Stored]]]:
    """Returns the people in two partitions, each with a delta; the second also has more changes."""
    halves = [[PEOPLE[n - 1] for n in half] for half in (EVEN, ODD)]
    bases = [base_of(4, half[1:], partition=at) for at, half in enumerate(halves)]
    changes = [[halves[0][0]], [halves[1][0], put(10, "person-10", 10, 5.0), *more]]
    keys = [len(halves[0]), len(halves[1])]
    deltas = [delta_of(5, changes[at], keys[at], partition=at) for at in range(2)]
    made = [write_segment(3 + at, frames, number=7) for at, frames in enumerate([bases, deltas])]
    objects = {name: parts.joined() for name, parts, _ in made}
    return objects, [list(chain) for chain in zip(*(stored for _, _, stored in made), strict=True)]


def _of_some_rows() -> Iterator[CheckpointCase]:
    segment, people = _people()
    objects, chains = act(referring(ACT + 1, [people], spread=BY_WHOLE_KEY))
    more, after = followed(chains, [GRACE], len(OURS) + 1)
    objects = segment | objects | more
    yield CheckpointCase(
        "refers-to-some-rows",
        "A base that has of a store the rows of its partition, as where there are more of them.",
        objects,
        [Read(6, OURS), Read(7, [*OURS, GRACE])],
    )
    again, _ = act(referring(9, after), epoch=8)
    yield CheckpointCase(
        "refers-to-what-has-some-rows",
        "A base that refers to that one: whose rows they are does not depend on who reads them.",
        objects | again,
        [Read(9, [*OURS, GRACE])],
    )
    segments, chains = _halves()
    of_several, _ = act(referring(ACT + 1, chains, spread=BY_WHOLE_KEY))
    yield CheckpointCase(
        "refers-to-some-rows-of-several",
        "A base of partition 3 of 5 that has rows of both stores of a state of two partitions.",
        segments | of_several,
        [Read(6, OURS)],
    )
    left_out, _ = act(referring(ACT + 1, [people], spread=BY_WHOLE_KEY | {"keys": {}}))
    yield CheckpointCase(
        "refers-to-no-family",
        "A family that the spread does not name is dropped.",
        segment | left_out,
        [Read(6, [])],
    )


def _damaged() -> Iterator[CheckpointCase]:
    objects, _ = act(referring(ACT + 1, [OF_THREE]))
    base = OF_THREE[0]
    source = OBJECTS[base.segment]
    place = base.entry["offset"] + base.entry["length"] - 60
    yield CheckpointCase(
        "refers-to-what-is-damaged",
        "A flipped bit in a frame that a base references.",
        OBJECTS | objects | {base.segment: flipped(source, place)},
        [Read(6, error=CORRUPTED)],
    )
    attempt, chain = delta_of_another_attempt()
    objects_of_attempt, chains = act(referring(ACT + 1, [chain]))
    yield CheckpointCase(
        "refers-to-a-delta-of-another-attempt",
        "A delta in its source applies to the frame that another attempt wrote.",
        OBJECTS | attempt | objects_of_attempt,
        [Read(6, error=CORRUPTED, names=chains[0][0].segment)],
    )
    several, chains = act(referring(ACT + 1, [chain, OF_FOUR]))
    yield CheckpointCase(
        "refers-to-several-and-a-delta-of-another-attempt",
        "A delta in one of its sources applies to the frame that another attempt wrote.",
        OBJECTS | attempt | several,
        [Read(6, error=CORRUPTED, names=chains[0][0].segment)],
    )
    gone = {name: data for name, data in OBJECTS.items() if name != base.segment}
    yield CheckpointCase(
        "refers-to-what-is-missing",
        "A segment that a base references is missing.",
        gone | objects,
        [Read(6, error=MISSING)],
    )

    def made(name: str, doc: str, placed: Placed) -> CheckpointCase:
        objects, _ = act(placed)
        doc += " All checksums hold."
        return CheckpointCase(f"refers-{name}", doc, OBJECTS | objects, [Read(6, error=CORRUPTED)])

    def crafted(name: str, doc: str, **fields: Any) -> CheckpointCase:
        return made(name, doc, referring(ACT + 1, [OF_THREE], **fields))

    body = page_body([OF_THREE])
    named = replace(body, stores=[replace(body.stores[0], key=(0, 3, "other"))])
    yield crafted("to-another-store", "Its source is of a store of another name.", body=named)
    other = replace(body, stores=[replace(body.stores[0], key=(1, 3, "default"))])
    yield crafted("to-another-operator", "Its source is of another operator.", body=other)
    hole = replace(body, stores=[body.stores[0].with_frame(-1, version=2)])
    yield crafted("to-a-chain-with-a-hole", "A version lacks in its source.", body=hole)
    cut_short = referring(ACT + 1, [OF_THREE[1:]])
    yield made("to-a-chain-without-a-base", "Its source begins with a delta.", cut_short)
    yield crafted("to-more-than-it-has", "The block says that there are two.", count=2)
    strange = replace(body, names=[b"segments/x.seg", *body.names[1:]])
    yield crafted("to-no-segment", "A name is not that of a segment.", body=strange)
    for name, spread in {
        "no-partitions": BY_WHOLE_KEY | {"partitions": 0},
        "no-source-partitions": {"partitions": 5, "keys": WHOLE_KEY},
        "more-source-partitions": BY_WHOLE_KEY | {"sourcePartitions": 2},
        "no-keys": {"partitions": 5, "sourcePartitions": 1},
        "no-columns": BY_WHOLE_KEY | {"keys": {"default": [[]]}},
        "columns-that-are-none": BY_WHOLE_KEY | {"keys": {"default": [["id"]]}},
    }.items():
        yield crafted(f"by-{name}", "The rows of the base are unknown.", spread=spread)


def _misplaced_keys() -> Iterator[CheckpointCase]:
    segment, people = _people()
    # The source of partition 3 of 10 has only rows of partitions 3 and 8.
    spread = BY_WHOLE_KEY | {"partitions": 10, "sourcePartitions": 5}
    objects, _ = act(referring(ACT + 1, [people], spread=spread))
    yield CheckpointCase(
        "refers-to-rows-of-no-partition",
        "A source has a row that belongs to no partition which refers to it.",
        segment | objects,
        [Read(6, error=CORRUPTED)],
    )
    segments, chains = _halves(OURS[0])
    objects, _ = act(referring(ACT + 1, chains, spread=BY_WHOLE_KEY))
    yield CheckpointCase(
        "refers-to-a-key-that-another-changes",
        "A delta of one of its sources puts a key of another one. All checksums hold.",
        segments | objects,
        [Read(6, error=CORRUPTED)],
    )
    name, parts, stored = write_segment(4, [base_of(5, PEOPLE[:1], partition=1)], number=8)
    objects, _ = act(referring(ACT + 1, [people, stored]))
    yield CheckpointCase(
        "refers-to-a-key-twice",
        "Two of its sources have the same key. All checksums hold.",
        segment | {name: parts.joined()} | objects,
        [Read(6, error=CORRUPTED)],
    )
