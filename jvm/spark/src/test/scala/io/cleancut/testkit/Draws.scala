package io.cleancut.testkit

/** The number of random draws: an eighth of a campaign, or all draws with `make chaos`. */
object Draws {
  val areAll: Boolean = sys.env.contains("CLEANCUT_ALL_DRAWS")

  def of(all: Int): Int = if (areAll) all else (all + 7) / 8
}
