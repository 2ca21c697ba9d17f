package io.cleancut.testkit

/** The number of random draws: an eighth of a campaign, or with `make chaos` all of it. */
object Draws {
  val areAll: Boolean = sys.env.contains("CLEANCUT_ALL_DRAWS")

  def of(all: Int): Int = if (areAll) all else (all + 7) / 8
}
