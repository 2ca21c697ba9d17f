package io.cleancut.conf

/**
 * A key that was renamed or removed. A session that still sets it fails with [[refusal]].
 *
 * @param shortName
 *   the key without [[Keys.Prefix]]
 * @param since
 *   first release without the key
 * @param successor
 *   key to set instead; None if there is none
 * @param advice
 *   sentence: how its values map to those of the successor, or why there is no successor
 */
final case class RemovedKey(
    shortName: String,
    since: String,
    successor: Option[Key[_]],
    advice: String
) {
  val name: String = Keys.Prefix + shortName

  def refusal: String = {
    val remedy = successor.fold("Remove it")(key => s"Set ${key.name} instead")
    s"$name was removed in $since. $remedy. $advice"
  }
}
