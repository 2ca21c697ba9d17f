"""The state engine: the log of a store, its indexes, and the rows of frames."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, mutants_of

_ENGINE = "jvm/core/src/main/scala/io/cleancut/engine"

_TABLE_SUITES = (
    "StateLogSuite",
    "UnreadBaseSuite",
    "FamiliesSuite",
    "StateLogModelSuite",
    "HashCollisionSuite",
    "HashFloodingSuite",
)
_LOG_SUITES = ("StateLogSuite", "StateLogModelSuite", "FamiliesSuite", "ConcurrentReadsSuite")
_DAMAGE_SUITES = (
    "StateLogSuite",
    "FormatVectorsSuite",
    "FrameDamageSuite",
    "UnreadBaseSuite",
    "StoreVectorsSuite",
)

MUTANTS: Sequence[Mutant] = [
    *mutants_of(
        "state engine",
        f"{_ENGINE}/Table.scala",
        _TABLE_SUITES,
        (
            "the first record after its limit is visible to a reader",
            "while (Integer.compareUnsigned(ref, bound) >= 0) {",
            "while (Integer.compareUnsigned(ref, bound) > 0) {",
        ),
        (
            "removed keys are found",
            "if (valueLength(memory, address) == Removed) 0L else address",
            "address",
        ),
        (
            "a rollback leaves the link to an undone record",
            "          setNext(memory, log.address(before), 0)\n",
            "",
        ),
        (
            "a rollback leaves undone keys in the ordered index",
            "          ordered.foreach(_.remove(key)(_ == ref))\n",
            "",
        ),
        ("a rollback keeps the number of keys", "    liveKeys = mark.keys\n", ""),
        ("a rollback keeps undone removals", "    removals.truncate(mark.end)\n", ""),
        (
            "keys that were put again are purged",
            "if (!isReplaced(removed(i))) deleteEntry(removed(i))",
            "deleteEntry(removed(i))",
        ),
        (
            "of a list that is written together only the last value stays",
            "        link = Added\n",
            "",
        ),
        (
            "a list is written with the hash from before the index was seeded",
            "if (slot == Absent) slot = probe(key)",
            "if (slot == Absent) slot = probeTaken(key)",
        ),
        (
            "removals before an unread block are purged",
            "while (ref != 0 && unreadBlockOf(keyOf(ref, entryKey)) >= 0) {",
            "while (false) {",
        ),
        (
            "replaced values of a list stay in the totals",
            "    while (isAdded(memory, at)) {",
            "    while (false) {",
        ),
        (
            "a row of the snapshot replaces later records",
            "while (before != 0 && Integer.compareUnsigned(before, ref) > 0) {",
            "while (false) {",
        ),
        (
            "rows of a snapshot are not compared with its totals",
            "    if (unreadKeys != 0L || unreadBytes != 0L) {",
            "    if (false) {",
        ),
        (
            "keys with the same hash are equal",
            "    keyLength(memory, address) == key.length &&\n"
            "    memory.same(key.base, key.offset, null, keyAddress(address), key.length)",
            "    true",
        ),
        (
            "chosen keys do not change the hash",
            "private def seedIndex(): Unit = if (!isSeeded) {",
            "private def seedIndex(): Unit = if (false) {",
        ),
        (
            "the ordered index keeps the hashes of before",
            "    ordered.foreach(_.rehash(seeded))\n",
            "",
        ),
    ),
    *mutants_of(
        "state engine",
        f"{_ENGINE}/StateLog.scala",
        _LOG_SUITES,
        (
            "rows that another thread reads are rewound",
            "val isFree = pins.forall(_.number <= version.number)",
            "val isFree = true",
        ),
        (
            "removals that a served version needs are purged",
            "val oldest = if (retained.head.number < before.number) retained.head else before",
            "val oldest = latest",
        ),
        ("a rewind keeps the next ID of a family", "    nextId = version.nextId\n", ""),
        (
            "a rewind keeps later versions",
            "    retained = retained.takeWhile(_ != version) :+ version\n",
            "",
        ),
        (
            "a version is found by its number alone",
            "retained.find(v => v.number == number && (id.isEmpty || v.id == id))",
            "retained.find(_.number == number)",
        ),
        (
            "a dropped family keeps its rows",
            "      family.table.clear()\n",
            "",
        ),
        (
            "a follower reads what is rewound",
            "        published = None\n        lowestRewind",
            "        lowestRewind",
        ),
    ),
    *mutants_of(
        "state engine",
        f"{_ENGINE}/PagedLog.scala",
        ("PagedLogSuite", "StateLogModelSuite"),
        (
            "a log exceeds its address space",
            "    if (slotsTaken + slotsOf(usable) > MaxSlots) {",
            "    if (false) {",
        ),
        (
            "a truncated page is not freed",
            "    if (addresses(slot) != 0L) account.free(addresses(slot), sizes(slot).toLong)\n"
            "    else unprovided -= 1\n",
            "    if (addresses(slot) == 0L) unprovided -= 1\n",
        ),
        (
            "a reader steps into the unused end of a page",
            "while (at != end && isPastPage(at)) at = nextPage(at)",
            "()",
        ),
    ),
    *mutants_of(
        "state engine",
        f"{_ENGINE}/HashIndex.scala",
        ("HashIndexSuite", "HashCollisionSuite", "StateLogModelSuite"),
        (
            "keys of full buckets are not found",
            "while (slot == Absent && isPassed(tags) && next(bucket) != first) {",
            "while (false) {",
        ),
        (
            "a full counter of passing keys wraps around",
            "    if (passed < MaxPassed) {",
            "    if (true) {",
        ),
        (
            "of several keys with a hash the last one is the only one",
            "ref = if (ref == 0L) Integer.toUnsignedLong(refOf(entry)) else Several",
            "ref = Integer.toUnsignedLong(refOf(entry))",
        ),
        (
            "a removed key leaves its entry",
            "    memory.putLong(table + slot.toLong * SlotBytes, 0L)\n",
            "",
        ),
    ),
    *mutants_of(
        "state engine",
        f"{_ENGINE}/OrderedIndex.scala",
        ("OrderedIndexSuite", "StateLogModelSuite", "FamiliesSuite"),
        (
            "entries of one place in several nodes are not found",
            "goOn = !isFound && at < count(node) && comparePlace(node, at, target) <= 0",
            "goOn = false",
        ),
        (
            "a scan in pieces omits entries of its last place",
            "if (refAt(node, at) != from.ref || !isAt(node, at, from)) {",
            "if (refAt(node, at) != from.ref && !isAt(node, at, from)) {",
        ),
        (
            "the entry at a split is in no node",
            "if (at <= keep) place(node, at, ref, below) else place(right, at - keep, ref, below)",
            "if (at < keep) place(node, at, ref, below) "
            "else if (at > keep) place(right, at - keep, ref, below)",
        ),
        (
            "a node that becomes empty is not freed",
            "          freeNode(child(node, at))\n",
            "",
        ),
    ),
    *mutants_of(
        "state engine",
        f"{_ENGINE}/DeltaWriter.scala",
        ("DeltaWriterSuite", "StateLogModelSuite", "FamiliesSuite"),
        (
            "a list that was removed and begun again is appended",
            "keepsReplaced || before == 0 || Integer.compareUnsigned(before, start.end) < 0",
            "before == before",
        ),
        (
            "a changelog keeps the families of its first block",
            "if (frame == null || begunWith != log.families.map(_.schema)) {",
            "if (frame == null) {",
        ),
        (
            "a changelog omits records after its last block",
            "    log.families.foreach(cursor(_).advance())\n",
            "",
        ),
    ),
    *mutants_of(
        "rows of frames",
        f"{_ENGINE}/FrameLoad.scala",
        _DAMAGE_SUITES,
        (
            "totals of families are not compared",
            "      if (!actual.contains(said)) {",
            "      if (false) {",
        ),
        (
            "the number of keys is not compared",
            "    if (log.allKeys != trailer.keys) {",
            "    if (false) {",
        ),
        (
            "a merge into a family without lists is accepted",
            "          if (!hasLists) throw reader.damaged(",
            "          if (false) throw reader.damaged(",
        ),
        (
            "a snapshot may have a key twice",
            "if (reader.identity.parent.isEmpty && !hasLists && trailer.records != trailer.keys) {",
            "if (false) {",
        ),
    ),
    *mutants_of(
        "rows of frames",
        f"{_ENGINE}/SourceLoad.scala",
        ("SourceLoadSuite",),
        (
            "two sources may have the same key",
            "if (isLater && !isCounted && table.hasRowBefore(record.key, mark.end)) {",
            "if (false) {",
        ),
        ("a source may have a key twice", "      if (keys != taken) {", "      if (false) {"),
        (
            "a divided source may have more keys than its trailer",
            "    } else if (keys > trailer.keys) {",
            "    } else if (false) {",
        ),
        (
            "rows of a dropped family remain",
            "      case Some(mark) => part.table.rollback(mark)",
            "      case Some(_) => ()",
        ),
    ),
    *mutants_of(
        "rows of frames",
        f"{_ENGINE}/UnreadBlocks.scala",
        ("UnreadBaseSuite", *_DAMAGE_SUITES),
        (
            "a block may have keys of another one",
            "if (!isWithin) throw frame.damaged(",
            "if (false) throw frame.damaged(",
        ),
        (
            "the size of a block's rows is not compared",
            "    if (bytes != place.content.bytes) {",
            "    if (false) {",
        ),
        (
            "two blocks may share a hash",
            "if (Integer.compareUnsigned(hashes(i - 1).lastHash, hashes(i).firstHash) >= 0) {",
            "if (Integer.compareUnsigned(hashes(i - 1).lastHash, hashes(i).firstHash) > 0) {",
        ),
        (
            "a block may have records of another family",
            "      if (records.family != place.content.family) {",
            "      if (false) {",
        ),
    ),
    *mutants_of(
        "rows of frames",
        f"{_ENGINE}/BlockDecoder.scala",
        ("BlockDecoderSuite", *_DAMAGE_SUITES),
        (
            "a record may run past its block",
            "if (length < 0 || length > limit - position) throw overrun()",
            "if (length < 0) throw overrun()",
        ),
        (
            "bytes may follow the last record",
            "} else if (position != limit) throw",
            "} else if (false) throw",
        ),
        (
            "a snapshot may have a removal",
            "case RecordOperation.Remove if isBase => throw",
            "case RecordOperation.Remove if false => throw",
        ),
    ),
]
