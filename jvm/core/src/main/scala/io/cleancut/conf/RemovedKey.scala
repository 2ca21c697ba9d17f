package io.cleancut.conf

/**
 * A key that earlier releases had, so that whoever still sets it is told what to do.
 *
 * @param shortName
 *   the part behind [[Keys.Prefix]]
 * @param since
 *   the first release without it
 * @param successor
 *   what is set in its place; None where nothing is any more
 * @param advice
 *   a sentence: which value of the successor is which of its own, or why there is none
 */
final case class RemovedKey(
    shortName: String,
    since: String,
    successor: Option[Key[_]],
    advice: String
) {
  val name: String = Keys.Prefix + shortName

  def refusal: String = {
    val act = successor.fold("take it out")(key => s"set ${key.name} in its place")
    s"$name is no key since $since; $act. $advice"
  }
}
