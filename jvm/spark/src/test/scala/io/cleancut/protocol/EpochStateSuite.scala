package io.cleancut.protocol

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.conf.{Capture, CaptureMode}
import io.cleancut.format.cut.{Cut, RunId}
import io.cleancut.protocol.EpochState._

/** All states of an epoch, and all events. */
class EpochStateSuite extends AnyFunSuite {
  import EpochStateSuite._

  test("an event of another epoch changes nothing") {
    for (state <- reachable; other <- Seq(Next - 1, Next + 1); event <- events(other))
      assert(decide(state, event) == ((state, Act.Nothing)))
  }

  test("each phase is reached, in a later epoch and in all kinds of a first one") {
    assert(reachable.map(_.phase) == Set(Open, Held, Sealed, Finishing))
    val kinds = reachable.groupBy { state =>
      (state.isFirst, state.isUnclaimed, state.sealedBefore.isDefined)
    }
    assert(kinds.size == 5 && kinds.values.forall(_.size == 8))
  }

  test("frames are kept from the first hold on") {
    for (state <- reachable) {
      val (next, effect) = decide(state, Hold(Next))
      assert(next == state.copy(isHeld = true))
      assert(effect == (if (state.isHeld) Act.Nothing else Act.KeepFrames))
      assert(decide(next, Hold(Next)) == ((next, Act.Nothing)))
    }
  }

  test("a commit starts the next epoch, of which only the seal before it is known") {
    for (state <- reachable) {
      val next = EpochState(Next + 1, isFirst = false, followsSealed = state.isSealed)
      assert(decide(state, Commit(Next)) == ((next, Act.CloseEpoch)))
    }
  }

  test("a claim is required after a cut, unless the run will write a seal") {
    for (state <- reachable) {
      val isRequired = state.isUnclaimed && (state.sealedBefore.isDefined || !state.isHeld)
      assert(state.isToClaim == isRequired)
      assert(!decide(state, Claim(Next))._1.isToClaim)
    }
  }

  test("a seal is an object if a later run must follow it, and is written once") {
    for (state <- reachable; hasDecisions <- Seq(false, true)) {
      val method = state.sealMethod(hasDecisions)
      // An epoch that this run or an earlier run has sealed is not sealed again.
      val isNew = !state.isSealed && state.sealedBefore.isEmpty
      val isToFollow = state.isUnclaimed || hasDecisions
      assert(method == (if (isNew && isToFollow) SealMethod.SealObject else SealMethod.OwnerCheck))
      assert(decide(state, Seal(Next))._1.sealMethod(hasDecisions) == SealMethod.OwnerCheck)
    }
  }

  test("an epoch that is finished from a seal stays in this phase when it is sealed") {
    for (state <- reachable) {
      val finishing = decide(state, Finish(cut(Next)))._1
      assert(finishing.phase == Finishing && finishing.finishing.contains(cut(Next)))
      assert(decide(finishing, Seal(Next))._1.phase == Finishing)
    }
  }

  test("rows stay in flight if the sink seals, and not in the first epoch of a run") {
    val auto = Capture(CaptureMode.Unaligned, None)
    for (state <- reachable) {
      assert(state.mayDefer(auto) == (state.isHeld && !state.isFirst))
      assert(!state.mayDefer(Capture.Off))
    }
  }

  test("the state of another epoch is empty") {
    for (state <- reachable) {
      assert(state.of(Next) == state)
      val other = state.of(Next + 3)
      assert(other.phase == Open && !other.isToClaim && other.sealedBefore.isEmpty)
    }
  }

  test("a run does not follow a seal of another epoch") {
    assert(EpochState.first(Next, followsCut = true, Some(cut(Next - 1))).sealedBefore.isEmpty)
    assert(EpochState.first(Next, followsCut = true, Some(cut(Next))).sealedBefore.isDefined)
  }
}

object EpochStateSuite {
  private val Next = 7L

  private def cut(epoch: Long): Cut =
    Cut(epoch, RunId(None, "run", 3L), "token", 0L, "", "", Nil, Map.empty)

  private def events(epoch: Long): Seq[Event] =
    Seq(Hold(epoch), Claim(epoch), Seal(epoch), Finish(cut(epoch)), Commit(epoch))

  /** All states that events reach, from the first epoch of a run and from a later one. */
  private val reachable: Set[EpochState] = {
    val starts = for {
      followsCut <- Seq(false, true)
      sealedBefore <- Seq(None, Some(cut(Next)))
    } yield EpochState.first(Next, followsCut, sealedBefore)
    def closure(states: Set[EpochState]): Set[EpochState] = {
      val next = states ++ states.flatMap(state => events(Next).map(decide(state, _)._1))
      val here = next.filter(_.epoch == Next)
      if (here == states) states else closure(here)
    }
    closure(starts.toSet + EpochState(Next, isFirst = false))
  }
}
