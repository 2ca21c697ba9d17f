package io.cleancut.history

import scala.collection.mutable

/** Whether an epoch takes longer than those before it in its run, as [[SlowEpochs]] measures. */
final class UsualTimes {
  private val recent = mutable.Queue.empty[Long]
  private var isFirst = true

  /**
   * An epoch is committed.
   *
   * @param tookMs
   *   with the write of its cut; None where no task has run
   * @return
   *   whether it was late
   */
  def took(tookMs: Option[Long]): Boolean = {
    val isLate = recent.size >= SlowEpochs.Fewest &&
      tookMs.exists(SlowEpochs.isSlow(_, recent.toSeq.sorted.apply(recent.size / 2)))
    // What a start takes is not what other epochs do.
    if (isFirst) isFirst = false
    else recent ++= tookMs
    if (recent.size > SlowEpochs.Remembered) recent.dequeue()
    isLate
  }
}
