package io.cleancut.history

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.history.Records._

class EpochStagesSuite extends AnyFunSuite {
  // A trigger of 2000 ms until the cut: source 100, planning 50, map side 1000, state operators
  // 500, sink 300, commit 50.
  private val Timings = Map(
    "epochMs" -> 2000L,
    "sourceMs" -> 100L,
    "planMs" -> 50L,
    "mapMs" -> 1000L,
    "stateMs" -> 500L,
    "sinkMs" -> 280L,
    "sealMs" -> 20L,
    "gateMs" -> 50L
  )
  private val slow = record(1, phases = Timings)
  private val begun = slow.writtenMs - 2000

  private def stage(id: Int, from: Long, to: Long) =
    CompletedStage(id, Seq("Exchange"), 4, begun + from, begun + to)

  test("a stage belongs to the phase in which it ran") {
    val stages = Seq(stage(1, 151, 1140), stage(2, 1145, 1655), stage(3, 1700, 1900))
    val assigned = EpochStages.assign(slow, stages, Map(0L -> "stateStoreSave"))
    assert(
      assigned.stages.stages.map(each => (each.id, each.phase, each.startMs, each.ms)) == Seq(
        (1, "map side", 151, 989),
        (2, "state operators", 1145, 510),
        (3, "sink", 1700, 200)
      )
    )
    assert(assigned.timings == slow.timings)
    assert(assigned.stages.operatorName(0) == "operator 0 (stateStoreSave)")
    assert(assigned.stages.operatorName(1) == "operator 1")
    assert(assigned.stages.longest(EpochPhase.MapSide).map(_.id).contains(1))
  }

  test("work of the sink before its first stage is time of the sink") {
    val assigned =
      EpochStages.assign(slow, Seq(stage(1, 750, 1140), stage(2, 1145, 1655)), Map.empty)
    assert(assigned.phaseMs(EpochPhase.MapSide) == 400)
    assert(assigned.phaseMs(EpochPhase.Sink) == 880)
    val sum = EpochPhase.All.map(assigned.phaseMs).sum
    assert(sum == EpochPhase.All.map(slow.phaseMs).sum)
  }

  test("tasks that continue after the last store has written belong to the state operators") {
    val assigned =
      EpochStages.assign(slow, Seq(stage(1, 151, 1140), stage(2, 1145, 1850)), Map.empty)
    assert(assigned.phaseMs(EpochPhase.State) == 700)
    assert(assigned.phaseMs(EpochPhase.Sink) == 80)
  }

  test("stages of an earlier attempt of the epoch are omitted, and only the longest are kept") {
    val many = (0 until 40).map(id => stage(id, 160, 170 + id))
    val assigned = EpochStages.assign(slow, stage(99, -5000, -10) +: many, Map.empty)
    val kept = assigned.stages.stages.map(_.id)
    assert(kept.size == EpochStages.MaxStages && kept.toSet == (24 until 40).toSet)
  }

  test("without stages the record has only the names") {
    val assigned = EpochStages.assign(slow, Nil, Map(0L -> "dedupe"))
    assert(assigned.stages == EpochStages(Nil, Map(0L -> "dedupe")))
    assert(assigned.timings == slow.timings)
  }
}
