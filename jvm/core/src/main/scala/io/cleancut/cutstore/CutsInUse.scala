package io.cleancut.cutstore

import io.cleancut.base.Recent

/**
 * Whether the epochs of a query are committed by cuts, as determined by this process for the first
 * store of a run. All stores of a run use the same result, so that none of them writes per-store
 * files while another driver begins to use cuts, or repeats the check.
 */
object CutsInUse {

  /** More than the concurrent runs in one process: a forgotten one is checked again. */
  private val MaxRuns = 4096

  private val results = new Recent[(String, String), Boolean](MaxRuns)

  /**
   * @param runId
   *   Spark's ID of the run; empty for a reader, which always checks
   */
  def by(location: String, runId: String)(check: => Boolean): Boolean =
    if (runId.isEmpty) check
    else
      results.synchronized {
        val key = (location, runId)
        if (!results.containsKey(key)) results.put(key, check)
        results.get(key)
      }
}
