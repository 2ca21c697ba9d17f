package io.cleancut.history

import scala.collection.mutable

/** Whether an epoch takes longer than earlier ones of its run, by the rule of [[SlowEpochs]]. */
final class UsualTimes {
  private val recent = mutable.Queue.empty[Long]
  private var isFirst = true

  /**
   * An epoch is committed.
   *
   * @param tookMs
   *   its duration with the write of its cut; None if no task has run
   * @return
   *   whether it was late
   */
  def took(tookMs: Option[Long]): Boolean = {
    val isLate = recent.size >= SlowEpochs.Fewest &&
      tookMs.exists(SlowEpochs.isSlow(_, recent.toSeq.sorted.apply(recent.size / 2)))
    // The first epoch of a run is not comparable with others.
    if (isFirst) isFirst = false
    else recent ++= tookMs
    if (recent.size > SlowEpochs.Remembered) recent.dequeue()
    isLate
  }
}
