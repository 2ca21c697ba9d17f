"""The capture of in-flight rows: stragglers, order within a key, decisions, take-back."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, mutants_of

_CAPTURE = (
    "jvm/spark/src/main/scala/org/apache/spark/sql/execution/streaming/state/cleancut/capture"
)
_PROTOCOL = "jvm/core/src/main/scala/io/cleancut/protocol"

MUTANTS: Sequence[Mutant] = [
    *mutants_of(
        "capture of in-flight rows",
        f"{_CAPTURE}/ChannelIterator.scala",
        ("ChannelIteratorSuite",),
        (
            "H2: an overtaken attempt emits no row",
            "if (isFirst || !port.isOvertaken || group.continues(row)) {",
            "if (!port.isOvertaken || group.continues(row)) {",
        ),
        (
            "H2: a group that must be complete is divided",
            "if (isFirst || !port.isOvertaken || group.continues(row)) {",
            "if (isFirst || !port.isOvertaken) {",
        ),
        (
            "H2: a row that would be late stays in flight",
            "    } else if (schema.isDeferrable(row)) {",
            "    } else if (true) {",
        ),
        (
            "H2: a row overtakes captured rows of its key",
            "    } else if (keptKeys(schema.keyHash(row))) {",
            "    } else if (false) {",
        ),
        (
            "H2: rows that return count as in flight",
            "    deferred = new RowsDigest.Builder\n    keptKeys.clear()\n",
            "    keptKeys.clear()\n",
        ),
        (
            "H3: in-flight rows have no limit",
            "oldest.hasNext && (bytes > maxBytes || group.continues(oldest.head))",
            "false",
        ),
        (
            "H3: a group is divided at the limit",
            "oldest.hasNext && (bytes > maxBytes || group.continues(oldest.head))",
            "oldest.hasNext && bytes > maxBytes",
        ),
        (
            "H4: in-flight rows are not durable when they are reported",
            "    if (kept.size > 0) port.write(kept)\n",
            "",
        ),
        (
            "D2: other input than that of the decision is accepted",
            "    if (actual != decided) throw port.differs(decided, actual)\n",
            "",
        ),
        (
            "D2: rows are emitted before an equal row is known",
            "    if (isDecided || buffer.size > 0) {",
            "    if (isDecided) {",
        ),
        (
            "the in-flight rows of a decision are not in the cut",
            "    if (staying.size > 0) port.write(staying)\n",
            "",
        ),
    ),
    *mutants_of(
        "capture of in-flight rows",
        f"{_CAPTURE}/pythonworker/WorkerChannel.scala",
        ("WorkerChannelSuite",),
        (
            "a row that would be late stays in flight",
            "mayStay = bytes <= maxBytes && schema.isDeferrable(row) &&",
            "mayStay = bytes <= maxBytes &&",
        ),
        (
            "emitted rows stay in flight although later rows of their key do not",
            "schema.isDeferrable(row) && !isBehind(schema.keyHash(row))",
            "schema.isDeferrable(row)",
        ),
        (
            "emitted rows that stay in flight have no limit",
            "mayStay = bytes <= maxBytes && schema",
            "mayStay = schema",
        ),
        (
            "a row that must not stay in flight does",
            "forbidden.get(hash).exists(!splitsGroups || number <= _)",
            "forbidden.get(hash).exists(_ => false)",
        ),
        (
            "rows before one that must not stay in flight do",
            "forbidden.get(hash).exists(!splitsGroups || number <= _)",
            "forbidden.get(hash).exists(_ == number)",
        ),
        (
            "the function receives no row",
            "worker.decide(math.max(stop, 1), emitted)",
            "worker.decide(stop, emitted)",
        ),
        (
            "a group that must be complete is divided",
            "if (emitted > 0 && port.isOvertaken && !isInGroup) cut()",
            "if (emitted > 0 && port.isOvertaken) cut()",
        ),
        (
            "a task takes back a part of a group",
            "        if (splitsGroups || isFirst) stop = at",
            "        stop = at",
        ),
        (
            "rows that the operator drops count as emitted",
            "if (!schema.isDropped(row)) emit(row)",
            "emit(row)",
        ),
        (
            "a row that the function has not received is forgotten",
            "while (emitted - onTheirWay.size < rows && !onTheirWay.isEmpty)",
            "while (emitted - onTheirWay.size <= rows && !onTheirWay.isEmpty)",
        ),
        (
            "rows that the worker has skipped are lost",
            "      rows.forEachRemaining(row => use(row))\n",
            "",
        ),
        (
            "rows that were not emitted are lost",
            "    kept.iterator.foreach(use)\n",
            "",
        ),
    ),
    *mutants_of(
        "capture of in-flight rows",
        f"{_PROTOCOL}/Stragglers.scala",
        ("StragglersSuite", "StragglersModelSuite"),
        (
            "V1: a task is late before half of its operator's tasks are done",
            "if (durations.size == 0 || durations.size * 2 < partitions) Nil",
            "if (durations.size == 0) Nil",
        ),
        (
            "V1: a short task is late without a margin",
            "Math.max(2 * median, median + MarginNs)",
            "2 * median",
        ),
        (
            "V1: a slow task is late at its median",
            "Math.max(2 * median, median + MarginNs)",
            "median + MarginNs",
        ),
        (
            "a second attempt at a task counts as another task",
            "if (ended.add(partition)) durations.add(durationNs)",
            "durations.add(durationNs)",
        ),
        (
            "V3: tasks that begin after the order to cut are not overtaken",
            "    cutNs.foreach(overtake(attempt, _))\n",
            "",
        ),
        (
            "a task that reads a second input has arrived",
            "      if (task.channels.isEmpty) {",
            "      if (true) {",
        ),
        (
            "the timeout of mode auto is ignored",
            "          if (nowNs - first >= timeoutNs) overtake(attempt, nowNs)",
            "          if (first <= nowNs) overtake(attempt, nowNs)",
        ),
    ),
    *mutants_of(
        "capture of in-flight rows",
        f"{_PROTOCOL}/Drains.scala",
        ("DrainsSuite",),
        (
            "V2: an epoch without input is cut at once",
            "ageNs < math.max(math.max(least, usualNs), LeastNs)",
            "ageNs < 0",
        ),
        (
            "V2: the usual duration is that of epochs without input",
            "    if (capture.drainNs.isEmpty) usualNs = onTimeNs",
            "    usualNs = onTimeNs",
        ),
        (
            "V2: the least duration is ignored",
            "math.max(math.max(least, usualNs), LeastNs)",
            "math.max(least, usualNs)",
        ),
    ),
    *mutants_of(
        "capture of in-flight rows",
        "jvm/core/src/main/scala/io/cleancut/coordinator/state/Barrier.scala",
        ("BarrierSuite",),
        (
            "an attempt that an executor knows is reported again",
            "request.unreported ++= ids.filterNot(request.known)",
            "request.unreported ++= ids",
        ),
        (
            "attempts of earlier epochs are reported",
            "    overtaken.clear()\n",
            "",
        ),
    ),
]
