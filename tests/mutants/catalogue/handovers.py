"""The handover of a query to its successor, and runs that wait before they own their query."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, mutants_of

_CORE = "jvm/core/src/main/scala/io/cleancut"
_COORDINATOR = f"{_CORE}/coordinator"
_SIMULATION = (
    "CutSimulationSuite::no epoch is lost, duplicated or committed by two runs despite all faults"
)
_SUITES = ("HandoverSuite", "SuccessorSuite", _SIMULATION)

MUTANTS: Sequence[Mutant] = [
    *mutants_of(
        "handovers",
        f"{_COORDINATOR}/Handover.scala",
        _SUITES,
        (
            "T1: a run hands over to an owner that does not wait",
            ".filter(_.waitsFor.contains(run.id.generation))",
            "",
        ),
        (
            "T2: a run completes its epoch although the successor has taken the query",
            "!hasTaken && !isFollowed",
            "!isFollowed",
        ),
        (
            "T2: a run completes its epoch although another owner follows the successor",
            "!hasTaken && !isFollowed",
            "!hasTaken",
        ),
        (
            "T2: the successor counts as an owner that follows it",
            "owners.isTaken(next + 1)",
            "owners.isTaken(next)",
        ),
        (
            "T2: a run with a successor plans an epoch",
            "    throw new HandedOver(archive.location, successor.toString)\n",
            "",
        ),
        (
            "T2: a run with a successor is refused an entry before it is stopped",
            "    stop(run)\n",
            "",
        ),
        (
            "T2: the query of a run with a successor continues",
            "    runtime.stopQuery(run.id.runId)\n",
            "",
        ),
        (
            "T3: a run takes the query without a record",
            "    owners.takeOver(taken.generation)\n",
            "",
        ),
        (
            "T3: a run does not wait until its time is over",
            "while (!hasEnded && !isOver) {",
            "if (!hasEnded && !isOver) {",
        ),
        (
            "T3: a run waits after its time is over",
            " || clock.monotonicNs() >= endNs",
            "",
        ),
        (
            "T3: a run waits although the run before has ended meanwhile",
            "        hasEnded = owners.hasEnded(generation)\n",
            "",
        ),
        (
            "a run waits although the driver of the run before has died",
            "driver.isGone(waitMs = 0L) || ",
            "",
        ),
        (
            "T3: a run that has waited in vain is regarded as alone",
            "taken.copy(isAlone = hasEnded)",
            "taken.copy(isAlone = true)",
        ),
        (
            "T3: a run that has waited for the end of the run before is not regarded as alone",
            "taken.copy(isAlone = hasEnded)",
            "taken",
        ),
    ),
    *mutants_of(
        "handovers",
        f"{_CORE}/cutstore/Owners.scala",
        _SUITES,
        (
            "T1: a run that does not wait names the run before",
            "Option.when(waits && !isAlone(generation))(generation - 1)",
            "Option.when(!isAlone(generation))(generation - 1)",
        ),
        (
            "T1: a run waits for a run that has ended",
            "Option.when(waits && !isAlone(generation))(generation - 1)",
            "Option.when(waits && generation > 1)(generation - 1)",
        ),
        (
            "T1: a run waits, and its owner object does not say so",
            '      waitsFor(generation).foreach(node.put("waitsFor", _))\n',
            "",
        ),
        (
            "T1: a run does not wait although its owner object says so",
            "storeClock, waitsFor(generation))",
            "storeClock, None)",
        ),
        (
            "T3: the record of a takeover has the name of the end marker",
            "    create(CutLayout.takeover(generation), note)",
            "    create(CutLayout.endMarker(generation), note)",
        ),
        (
            "T3: the owner object of a run counts as its record of a takeover",
            "    root.head(ObjectKey(CutLayout.takeover(generation))).isDefined",
            "    root.head(ObjectKey(CutLayout.owner(generation))).isDefined",
        ),
    ),
    *mutants_of(
        "handovers",
        f"{_CORE}/cutstore/Owners.scala",
        ("HandoverSuite",),
        (
            "the owner object does not say where its driver can be reached",
            '      address.foreach(node.put("address", _))\n',
            "",
        ),
    ),
    *mutants_of(
        "handovers",
        f"{_CORE}/base/ProcessWatch.scala",
        ("ProcessWatchSuite",),
        (
            "a closed connection means that the driver has died",
            "        cannotConnect()\n",
            "        connection.isEmpty\n",
        ),
        (
            "a loopback address of another host is connected to",
            ".filter(isHere || !_.getAddress.isLoopbackAddress)",
            "",
        ),
        (
            "a connection that cannot be established shows nothing",
            "other.isInstanceOf[ConnectException]",
            "false",
        ),
        (
            "a first connection that is not answered shows that a process is gone",
            "hasConnected && unanswered >= MaxUnanswered",
            "unanswered >= 1",
        ),
        (
            "a connection is regarded as open when it is closed",
            "socket.getInputStream.read() >= 0",
            "socket.getInputStream.read() >= -1",
        ),
        (
            "a driver that sends nothing has died",
            "case _: SocketTimeoutException => true",
            "case _: SocketTimeoutException => false",
        ),
    ),
    *mutants_of(
        "handovers",
        f"{_COORDINATOR}/driver/ParkedRuns.scala",
        ("ParkedRunsSuite",),
        (
            "a location is parked twice",
            "    isNew\n",
            "    true\n",
        ),
        (
            "a waiting run is forgotten when its location is parked again",
            "    if (isNew) parked(location) = None\n",
            "    parked(location) = None\n",
        ),
        (
            "a run at a parked location is not reported",
            "        parked(location) = Some(ParkedRun(location, clock.wallMs()))\n",
            "",
        ),
        (
            "a released location remains parked",
            "    parked -= location\n    notifyAll()",
            "    notifyAll()",
        ),
        (
            "a waiting run is not woken",
            "    parked -= location\n    notifyAll()",
            "    parked -= location",
        ),
        (
            "a run continues when another location is released",
            "while (parked.contains(location)) wait()",
            "if (parked.contains(location)) wait()",
        ),
        (
            "the location of a stopped run remains parked",
            "          parked -= location\n          throw e",
            "          throw e",
        ),
        (
            "a run that is stopped while it waits takes the query",
            "          throw e\n",
            "",
        ),
    ),
]
