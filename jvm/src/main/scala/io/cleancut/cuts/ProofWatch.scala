package io.cleancut.cuts

import java.util.concurrent.{Executor, TimeUnit}
import java.util.concurrent.atomic.AtomicBoolean

import scala.util.control.NonFatal

import io.cleancut.Clock
import io.cleancut.format.Proof

/**
 * The last proof that a query can be restored, for metrics, which are asked for by threads that are
 * not to wait for a store: what was known when it was last looked for. Who asks has it looked for
 * again in the background, at most once a minute.
 *
 * @param look
 *   for all proofs that there are
 */
final class ProofWatch(look: () => Seq[Proof], clock: Clock, background: Executor) {
  import ProofWatch._

  @volatile private var known = Option.empty[Proof]
  @volatile private var dueNs = Option.empty[Long]
  private val isLooking = new AtomicBoolean

  def last: Option[Proof] = {
    val isDue = dueNs.forall(clock.monotonicNs() - _ >= 0)
    if (isDue && isLooking.compareAndSet(false, true)) {
      try background.execute(() => lookNow())
      // It is shut down with the query.
      catch { case NonFatal(_) => isLooking.set(false) }
    }
    known
  }

  private def lookNow(): Unit =
    try known = look().maxByOption(of => (of.epoch, of.provenMs)).orElse(known)
    // A store that is away for a moment takes nothing from what was proven.
    catch { case NonFatal(_) => () }
    finally {
      dueNs = Some(clock.monotonicNs() + EveryNs)
      isLooking.set(false)
    }
}

object ProofWatch {
  val EveryNs: Long = TimeUnit.MINUTES.toNanos(1)
}
