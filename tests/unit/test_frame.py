"""Each corruption of a frame is found, at any position."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleancut._format.frame.frame import FrameRequest, read_frame
from cleancut._format.frame.records import Record, parse_records
from cleancut._format.layout import FrameName, Kind, StoreId
from cleancut.errors import CleancutError
from tests.vectors.frame_cases import FAMILY, Source, sources
from tests.vectors.frame_encoder import Change, encode_frame, encode_record

SMALL = [source for source in sources() if len(source.parts().joined()) < 4000]


def request(source: Source) -> FrameRequest:
    identity = source.identity
    store = StoreId(identity["operator"], identity["partition"], identity["store"])
    kind: Kind = "base" if source.kind == "base" else "delta"
    return FrameRequest("x", store, FrameName(identity["version"], identity["id"], kind))


@pytest.mark.parametrize("source", SMALL, ids=lambda source: source.name)
def test_every_flipped_bit_is_found(source: Source) -> None:
    sound, requested = source.parts().joined(), request(source)
    read_frame(sound, requested)
    for place in range(len(sound)):
        for bit in range(8):
            data = bytearray(sound)
            data[place] ^= 1 << bit
            with pytest.raises(CleancutError):
                read_frame(bytes(data), requested)


@pytest.mark.parametrize("source", SMALL, ids=lambda source: source.name)
def test_every_truncation_is_found(source: Source) -> None:
    sound, requested = source.parts().joined(), request(source)
    for size in range(len(sound)):
        with pytest.raises(CleancutError) as raised:
            read_frame(sound[:size], requested)
        assert raised.value.error_id == "CLEANCUT_FRAME_CORRUPTED"


@pytest.mark.parametrize("source", SMALL, ids=lambda source: source.name)
def test_every_overwritten_range_is_found(source: Source) -> None:
    """For example a page of zeros after a crash of the machine."""
    sound, requested = source.parts().joined(), request(source)
    for start in range(0, len(sound), 64):
        data = sound[:start] + bytes(len(sound[start : start + 64])) + sound[start + 64 :]
        if data != sound:
            with pytest.raises(CleancutError):
                read_frame(data, requested)


changes = st.builds(
    Change,
    st.binary(max_size=200),
    st.none() | st.binary(max_size=200),
    st.integers(0, 2**32 - 1),
)


@given(
    st.lists(st.lists(changes, min_size=1, max_size=20), max_size=4),
    st.sampled_from(["none", "zstd"]),
)
def test_any_records_are_decoded_as_written(blocks: list[list[Change]], codec: str) -> None:
    source = Source(
        "any",
        "",
        "delta",
        {
            "operator": 5,
            "partition": 6,
            "store": "s",
            "version": 2,
            "id": "ab" * 16,
            "parentVersion": 1,
            "parentId": "aa" * 16,
        },
        blocks,
        keys=3,
    )
    data = encode_frame("delta", source.identity, blocks, 3, codec).joined()
    frame = read_frame(data, request(source))
    expected = [Record(c.family, c.key, c.value) for block in blocks for c in block]
    assert list(frame.records()) == expected
    assert frame.record_count == len(expected)


@given(st.binary(max_size=60))
def test_any_bytes_decode_to_records_or_an_error(raw: bytes) -> None:
    """Decoded records encode to bytes that decode to the same records."""
    try:
        records = parse_records(raw)
    except ValueError:
        return
    again = b"".join(encode_record(Change(r.key, r.value, r.family_id)) for r in records)
    assert parse_records(again) == records


IDENTITY_FAULTS = [
    ({"version": "2"}, "version is not of type int"),
    ({"operator": True}, "operator is not of type int"),
    ({"partition": None}, "partition is not of type int"),
    ({"store": 1}, "store is not of type str"),
    ({"parentVersion": 2}, "parentVersion 2 is not below version 2"),
    ({"parentVersion": -1}, "parentVersion -1 is not below version 2"),
    ({"parentVersion": 0}, "parentId aa does not fit parentVersion 0"),
    ({"parentId": None}, "parentId is not of type str"),
    ({"families": {}}, "families is not of type list"),
    ({"families": [3]}, "a family is not a JSON object"),
    ({"families": [FAMILY | {"keySchema": "{}"}]}, "keySchema is not of type dict"),
]


@pytest.mark.parametrize(("fault", "problem"), IDENTITY_FAULTS, ids=lambda value: str(value)[:40])
def test_an_identity_that_breaks_a_rule_is_refused(fault: dict[str, object], problem: str) -> None:
    identity = {"operator": 0, "partition": 0, "store": "s", "version": 2, "id": "ab" * 16}
    parent = {"parentVersion": 1, "parentId": "aa"}
    data = encode_frame("delta", identity | parent | fault, [], 0).joined()
    name = FrameName(2, "ab" * 16, "delta")
    with pytest.raises(CleancutError) as raised:
        read_frame(data, FrameRequest("x", StoreId(0, 0, "s"), name))
    assert raised.value.error_id == "CLEANCUT_FRAME_CORRUPTED"
    assert problem in raised.value.params["detail"]


@pytest.mark.parametrize(
    ("kind", "extra", "problem"),
    [
        ("base", {}, "families are missing"),
        ("base", {"parentVersion": 1, "families": [FAMILY]}, "a base has no parent"),
        ("delta", {"parentVersion": 0}, "families are missing"),
        ("delta", {"parentVersion": 1}, "parentId None does not fit parentVersion 1"),
        ("delta", {"families": [FAMILY]}, "parentVersion None is not below version 2"),
    ],
)
def test_an_identity_must_match_its_kind(
    kind: Kind, extra: dict[str, object], problem: str
) -> None:
    identity = {"operator": 0, "partition": 0, "store": "s", "version": 2, "id": "ab" * 16}
    data = encode_frame(kind, identity | extra, [], 0).joined()
    with pytest.raises(CleancutError, match=problem):
        read_frame(data, FrameRequest("x", StoreId(0, 0, "s"), FrameName(2, "ab" * 16, kind)))


def test_an_error_names_object_store_and_version(tmp_path: Path) -> None:
    requested = FrameRequest("bucket/2.delta", StoreId(4, 5, "s"), FrameName(6, "ab" * 16, "delta"))
    with pytest.raises(CleancutError) as raised:
        read_frame(b"", requested)
    facts = {"path": "bucket/2.delta", "operator": "4", "partition": "5", "version": "6"}
    assert facts.items() <= raised.value.params.items()
    assert all(text in str(raised.value) for text in ("bucket/2.delta", "partition=5", "version=6"))
