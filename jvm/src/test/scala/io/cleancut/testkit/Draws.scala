package io.cleancut.testkit

/** How much of a campaign of random draws is run: a quarter, or with `make chaos` all of it. */
object Draws {
  private val areAll = sys.env.contains("CLEANCUT_ALL_DRAWS")

  def of(all: Int): Int = if (areAll) all else (all + 3) / 4
}
