package io.cleancut.coordinator.sim

import io.cleancut.objectstore.{RequestKind, SimulatedFault, SimulatedNetwork}

/** The connection of one process to the bucket: each request is a scheduling point and may fail. */
final class SimNetwork(baton: Baton, faults: Faults) extends SimulatedNetwork {
  import SimNetwork._

  override def request[A](kind: RequestKind, effect: () => A): A = {
    try baton.yieldNow()
    catch {
      case crash: Crashed =>
        if (isWrite(kind) && faults.strikes(Fault.WriteOfTheDead, OfTheDead)) late(effect)
        throw crash
    }
    if (faults.strikes(Fault.Throttled)) throw new SimulatedFault("slow down")
    if (faults.strikes(Fault.FailedBefore)) throw new SimulatedFault("connection reset")
    if (isWrite(kind) && faults.strikes(Fault.LateWrite)) {
      late(effect)
      throw new SimulatedFault("time out")
    }
    val answer = effect()
    if (isWrite(kind)) baton.yieldNow()
    if (faults.strikes(Fault.LostAnswer)) throw new SimulatedFault("connection reset")
    answer
  }

  private def late[A](effect: () => A): Unit = {
    baton.spawn("late write", Bucket, Baton.Slow) {
      effect()
      ()
    }
    ()
  }

  private def isWrite(kind: RequestKind) =
    kind == RequestKind.Put || kind == RequestKind.Create || kind == RequestKind.Delete
}

object SimNetwork {

  /** The process of requests in transit; it never crashes. */
  object Bucket

  /** A factor for writes of dead processes, which are rare. */
  private val OfTheDead = 100.0
}
