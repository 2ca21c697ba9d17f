package io.cleancut.protocol

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.conf.{Capture, CaptureMode}
import io.cleancut.format.cut.{Cut, RunId}
import io.cleancut.protocol.EpochState._

/** All states that an epoch can be in, and all that can happen to it. */
class EpochStateSuite extends AnyFunSuite {
  import EpochStateSuite._

  test("an event of another epoch changes nothing") {
    for (state <- reachable; other <- Seq(Next - 1, Next + 1); event <- events(other))
      assert(decide(state, event) == ((state, Act.Nothing)))
  }

  test("each phase is reached, in a later epoch and in all kinds of a first one") {
    assert(reachable.map(_.phase) == Set(Open, Held, Sealed, Finishing))
    val kinds = reachable.groupBy(of => (of.isFirst, of.isUnclaimed, of.sealedBefore.isDefined))
    assert(kinds.size == 5 && kinds.values.forall(_.size == 8))
  }

  test("frames are kept from the first time on that the sink says it will seal, and no other") {
    for (state <- reachable) {
      val (next, act) = decide(state, Hold(Next))
      assert(next == state.copy(isHeld = true))
      assert(act == (if (state.isHeld) Act.Nothing else Act.KeepFrames))
      assert(decide(next, Hold(Next)) == ((next, Act.Nothing)))
    }
  }

  test("after its cut the next epoch begins, of which nothing holds that held for this one") {
    for (state <- reachable)
      assert(
        decide(state, Commit(Next)) == ((EpochState(Next + 1, isFirst = false), Act.CloseEpoch))
      )
  }

  test("a claim is needed after a cut, unless the run's own seal will say the same") {
    for (state <- reachable) {
      val needs = state.isUnclaimed && (state.sealedBefore.isDefined || !state.isHeld)
      assert(state.isToClaim == needs)
      assert(!decide(state, Claim(Next))._1.isToClaim)
    }
  }

  test("a seal is an object where a later run has to follow it, and once") {
    for (state <- reachable; hasDecisions <- Seq(false, true)) {
      val found = state.sealMethod(hasDecisions)
      // Nothing of what an earlier run has sealed is sealed again, and neither is one's own.
      val isNew = !state.isSealed && state.sealedBefore.isEmpty
      val isToFollow = state.isUnclaimed || hasDecisions
      assert(found == (if (isNew && isToFollow) SealMethod.SealObject else SealMethod.OwnerCheck))
      assert(decide(state, Seal(Next))._1.sealMethod(hasDecisions) == SealMethod.OwnerCheck)
    }
  }

  test("an epoch that is finished from a seal stays so when it is sealed") {
    for (state <- reachable) {
      val finishing = decide(state, Finish(cut(Next)))._1
      assert(finishing.phase == Finishing && finishing.finishing.contains(cut(Next)))
      assert(decide(finishing, Seal(Next))._1.phase == Finishing)
    }
  }

  test("rows stay in flight where the sink seals, and not in the first epoch of a run") {
    val auto = Capture(CaptureMode.Unaligned, None)
    for (state <- reachable) {
      assert(state.mayDefer(auto) == (state.isHeld && !state.isFirst))
      assert(!state.mayDefer(Capture.Off))
    }
  }

  test("of another epoch nothing is known") {
    for (state <- reachable) {
      assert(state.of(Next) == state)
      val other = state.of(Next + 3)
      assert(other.phase == Open && !other.isToClaim && other.sealedBefore.isEmpty)
    }
  }

  test("a seal of another epoch than the first is none that the run follows") {
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

  /** All that events lead to, from the first epoch of a run and from a later one. */
  private val reachable: Set[EpochState] = {
    val starts = for {
      followsCut <- Seq(false, true)
      sealedBefore <- Seq(None, Some(cut(Next)))
    } yield EpochState.first(Next, followsCut, sealedBefore)
    def more(found: Set[EpochState]): Set[EpochState] = {
      val next = found ++ found.flatMap(state => events(Next).map(decide(state, _)._1))
      val here = next.filter(_.epoch == Next)
      if (here == found) found else more(here)
    }
    more(starts.toSet + EpochState(Next, isFirst = false))
  }
}
