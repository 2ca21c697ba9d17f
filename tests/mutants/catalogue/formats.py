"""Formats: bytes of cuts and their chains."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, mutants_of

_FORMAT = "python/cleancut/_format"

_CUT_TESTS = (
    "tests/unit/test_cut_vectors.py",
    "tests/unit/test_cuts.py",
    "tests/unit/test_chain_vectors.py",
    "tests/unit/test_paged_chains.py",
    "tests/unit/test_verify_pages.py",
    "tests/unit/test_unreleased_formats.py",
)
_FRAME_TESTS = (
    "tests/unit/test_vectors.py",
    "tests/unit/test_frame.py",
    "tests/unit/test_lookup.py",
    "tests/unit/test_cut_vectors.py",
)

MUTANTS: Sequence[Mutant] = [
    *mutants_of(
        "format of cuts",
        f"{_FORMAT}/envelope.py",
        _CUT_TESTS,
        (
            "a wrong checksum is accepted",
            "if crc32(stored, crc32(data[:_CHECKED])) != crc:",
            "if False:",
        ),
        (
            "the header is not in the checksum",
            "crc32(stored, crc32(data[:_CHECKED]))",
            "crc32(stored)",
        ),
        ("a body of another size is accepted", "if len(stored) != stored_size:", "if False:"),
        ("an unknown codec is accepted", "if codec != _ZSTD or reserved != 0:", "if False:"),
    ),
    *mutants_of(
        "format of cuts",
        f"{_FORMAT}/cut/cut.py",
        _CUT_TESTS,
        ("a cut of another epoch is accepted", "if epoch not in (None, cut.epoch):", "if False:"),
        ("a store may be in a cut twice", "if store_id in chains:", "if False:"),
        (
            "versions of frames may descend",
            "if any(one.name.version >= other.name.version for one, other in pairwise(chain)):",
            "if False:",
        ),
        (
            "a chain may end in another version",
            'if (last.version, last.version_id) != (version, typed(fields, "id", str)):',
            "if False:",
        ),
        (
            "a frame may be in a segment that is not named",
            "not 0 <= index < len(segments)",
            "not index < len(segments)",
        ),
        ("references may have any version", "if not before < version <= epoch + 1:", "if False:"),
    ),
    *mutants_of(
        "format of cuts",
        f"{_FORMAT}/chains.py",
        _CUT_TESTS,
        (
            "a chain may begin with a later changelog",
            'if first.kind != "base" and first.version != 1:',
            "if False:",
        ),
        (
            "a version may be missing in a chain",
            "if other.name.version != one.name.version + 1:",
            "if False:",
        ),
        (
            "changelogs before the snapshot are kept",
            "frame for frame in candidates if frame.name.version > top",
            "frame for frame in candidates if frame.name.version >= top",
        ),
        (
            "a snapshot may follow another frame",
            'if any(frame.name.kind == "base" for frame in chain[1:]):',
            "if False:",
        ),
        (
            "a chain may end before the version of the cut",
            "    if last.version != version:",
            "    if False:",
        ),
    ),
    *mutants_of(
        "format of frames",
        f"{_FORMAT}/frame/frame.py",
        _FRAME_TESTS,
        (
            "a header with a wrong checksum is accepted",
            "if crc32(raw, crc32(head[:12])) != crc:",
            "if False:",
        ),
        (
            "the frame of another store or version is accepted",
            "if (identity.store, identity.name) != (request.store, request.name):",
            "if False:",
        ),
        (
            "a block with a wrong checksum is accepted",
            "if crc32(stored, crc32(extent.head[:12], seed)) != extent.crc:",
            "if False:",
        ),
        (
            "blocks may be exchanged",
            'crc32(struct.pack("<II", header.crc, extent.ordinal))',
            'crc32(struct.pack("<II", header.crc, 0))',
        ),
        (
            "a block may have another number of records",
            "    if len(records) != extent.count:",
            "    if False:",
        ),
        (
            "a snapshot may have a remove",
            'if self.identity.name.kind == "base" and any(',
            "if False and any(",
        ),
        (
            "a trailer with a wrong checksum is accepted",
            'if crc32(raw[:-8], crc32(struct.pack("<I", header.crc))) != crc:',
            "if False:",
        ),
        (
            "the trailer of another number of blocks is accepted",
            "if (block_count, record_count, length) != counted or same_size != size:",
            "if False:",
        ),
        ("bytes may follow the trailer", "    if len(data) != end:", "    if False:"),
        (
            "a block that the index does not describe is accepted",
            "if sizes != self.index.blocks[ordinal].sizes:",
            "if False:",
        ),
        (
            "a snapshot of another length is read by its index",
            "if length != size or (index.blocks and header.size + blocks + len(raw) != size):",
            "if False:",
        ),
    ),
]
