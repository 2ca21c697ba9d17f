"""Objects in Scala: checksums, identities and lengths of frames, segments, cuts and pages."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, mutants_of

_FORMAT = "jvm/core/src/main/scala/io/cleancut/format"

_FRAME_SUITES = ("FormatVectorsSuite", "FrameDamageSuite", "FrameSuite", "LazyRestoreSuite")
_CUT_SUITES = ("CutVectorsSuite", "ChainVectorsSuite", "CutSuite", "CutPageSuite")

MUTANTS: Sequence[Mutant] = [
    *mutants_of(
        "objects in Scala",
        f"{_FORMAT}/frame/FrameReader.scala",
        _FRAME_SUITES,
        (
            "a header with a wrong checksum is accepted",
            "if (Crc.ofParts(wrap(bytes).limit(HeaderCheckedBytes), wrap(json)) != headerCrc) {",
            "if (false) {",
        ),
        (
            "the frame of another store or version is accepted",
            "    if (!isExpected) {",
            "    if (false) {",
        ),
        (
            "the trailer of other blocks is accepted",
            "if (parsed.blocks != blocks || parsed.records != records || "
            "parsed.sizeBytes != position) {",
            "if (false) {",
        ),
        ("bytes may follow the trailer", "if (in.read() >= 0) throw", "if (false) throw"),
        (
            "the index of other blocks is accepted",
            "    if (places.nonEmpty && places != sizes.result()) {",
            "    if (false) {",
        ),
    ),
    *mutants_of(
        "objects in Scala",
        f"{_FORMAT}/frame/BlockCodec.scala",
        _FRAME_SUITES,
        (
            "a block with a wrong checksum is accepted",
            "    if (crc != head.getInt(BlockCheckedBytes)) {",
            "    if (false) {",
        ),
        (
            "the sizes of a block have no limit",
            "stored > maxStored(raw) || records <= 0)",
            "records <= 0)",
        ),
        (
            "a block may have fewer bytes than its header states",
            "    if (decoded != raw) throw",
            "    if (false) throw",
        ),
    ),
    *mutants_of(
        "objects in Scala",
        f"{_FORMAT}/frame/FrameTrailer.scala",
        _FRAME_SUITES,
        (
            "a trailer with a wrong checksum is accepted",
            "if (Crc.ofParts(intBytes(headerCrc), end, wrap(index), checked) != fields.getInt) {",
            "Crc.ofParts(intBytes(headerCrc), end, wrap(index), checked)\n"
            "    if (fields.getInt.toLong == Long.MaxValue) {",
        ),
        (
            "the totals of the index are not compared with the trailer",
            "    parsed.problem(keys).foreach(detail => throw request.damaged(detail))\n",
            "",
        ),
    ),
    *mutants_of(
        "objects in Scala",
        f"{_FORMAT}/frame/BaseFrame.scala",
        (*_FRAME_SUITES, "UnreadBaseSuite"),
        (
            "a block that the index does not describe is accepted",
            "    if (!isThat) throw",
            "    if (false) throw",
        ),
        (
            "the index of another frame is accepted",
            "    if (!isWhole) throw",
            "    if (false) throw",
        ),
        (
            "a frame of another length is accepted",
            "    if (trailer.sizeBytes != source.length) {",
            "    if (false) {",
        ),
    ),
    *mutants_of(
        "objects in Scala",
        f"{_FORMAT}/cut/Segment.scala",
        _CUT_SUITES,
        (
            "the header of a segment with a wrong checksum is accepted",
            "if (headerCrcOf(head.take(HeaderBytes + length)) != headerCrc) {",
            "if (false) {",
        ),
        (
            "the table of a segment with a wrong checksum is accepted",
            "if (crc != trailer.crc || trailer.reserved != 0) damaged(",
            "if (false) damaged(",
        ),
        (
            "a table that differs from the cut is accepted",
            "if (footer.length != end.footerBytes || Crc.of(footer) != end.crc) {",
            "if (false) {",
        ),
        (
            "frames may overlap",
            "require(frame.place.offset == at,",
            "require(true,",
        ),
        (
            "frames may end before the table",
            "require(frameEnd == end,",
            "require(true,",
        ),
        (
            "the segment of another run is accepted",
            "require(CutLayout.isSegmentOf(name, identity),",
            "require(true,",
        ),
    ),
    *mutants_of(
        "objects in Scala",
        f"{_FORMAT}/cut/CheckedBody.scala",
        _CUT_SUITES,
        (
            "a body with a wrong checksum is accepted",
            "if (crcOf(bytes) != expected) damaged(",
            "if (false) damaged(",
        ),
        (
            "a body of another size is accepted",
            "if (stored != bytes.length - HeaderBytes || raw < 0",
            "if (raw < 0",
        ),
        (
            "an unknown codec is accepted",
            "if (codec != CodecZstd || reserved != 0) damaged(",
            "if (false) damaged(",
        ),
    ),
    *mutants_of(
        "objects in Scala",
        f"{_FORMAT}/cut/CutCodec.scala",
        _CUT_SUITES,
        (
            "a cut of another epoch is accepted",
            "if (epoch.exists(_ != cut.epoch)) damaged(",
            "if (false) damaged(",
        ),
        (
            "a shuffle input may be in a cut twice",
            "require(names.distinct.size == names.size,",
            "require(true,",
        ),
        (
            "references may have any order",
            "      isAscending && versions",
            "      versions",
        ),
        (
            "sinks may have published later epochs",
            "    require(isPast,",
            "    require(true,",
        ),
    ),
    *mutants_of(
        "objects in Scala",
        f"{_FORMAT}/Chains.scala",
        _CUT_SUITES,
        ("a version may have two snapshots", "require(isOnly,", "require(true,"),
        (
            "a version may be missing in a chain",
            "      if (version.number != before + 1) {",
            "      if (false) {",
        ),
        (
            "a chain may end before the version of the cut",
            "require(last == epoch + 1,",
            "require(true,",
        ),
        ("a snapshot may follow another frame", "require(!isWithin,", "require(true,"),
        (
            "a chain may begin with a later changelog",
            "require(kind == FrameKind.Base || first.number == 1L,",
            "require(true,",
        ),
    ),
    *mutants_of(
        "objects in Scala",
        "jvm/core/src/main/scala/io/cleancut/cutstore/StoredCut.scala",
        ("ChainVectorsSuite", "PagedChainsSuite"),
        (
            "the number of stores is not compared",
            "    if (chains.size != paged.storeCount) {\n"
            '      damaged(s"it has ${paged.storeCount} stores, but its pages',
            '    if (false) {\n      damaged(s"it has ${paged.storeCount} stores, but its pages',
        ),
        (
            "pages may overlap",
            ".filter(following => StoreOrder.gteq(page.stores.last, following.first))",
            ".filter(_ => false)",
        ),
        (
            "frames that do not count are in the chain",
            "val added = frames.filter(frame => part.counted(frame._3.offset))",
            "val added = frames",
        ),
        (
            "frames of the window that are in the page count again",
            "      if (part.epoch > epoch) {",
            "      if (true) {",
        ),
        (
            "a store is read without the frames of its window",
            " ++ window.flatMap(counted(_, store))",
            "",
        ),
    ),
]
