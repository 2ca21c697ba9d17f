package io.cleancut.cutstore

import io.cleancut.base.Recent

/**
 * Whether the epochs of a query are committed by cuts, as this process found at the first of its
 * stores in a run. All of a run's stores hold to that, so that none of them writes beside cuts that
 * another driver begins meanwhile, or looks for them again.
 */
object CutsInUse {

  /** More than run in one process at a time: one that is forgotten is looked for again. */
  private val MaxRuns = 4096

  private val found = new Recent[(String, String), Boolean](MaxRuns)

  /**
   * @param runId
   *   Spark's id of the run; empty for a reader, which is to see what there is now
   */
  def by(location: String, runId: String)(look: => Boolean): Boolean =
    if (runId.isEmpty) look
    else
      found.synchronized {
        val key = (location, runId)
        if (!found.containsKey(key)) found.put(key, look)
        found.get(key)
      }
}
