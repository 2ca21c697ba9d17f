package io.cleancut.conf

/**
 * One configuration key, declared in [[Keys]] and nowhere else.
 *
 * @param shortName
 *   the part behind [[Keys.Prefix]]
 * @param doc
 *   what it does and what a higher or lower value costs
 * @param since
 *   the first release that knows it
 */
final case class Key[A](
    shortName: String,
    doc: String,
    default: A,
    keyType: KeyType[A],
    since: String
) {
  val name: String = Keys.Prefix + shortName

  def defaultText: String = keyType.render(default)

  /** The value in `confs`, the default where it is not set, or a sentence about what is wrong. */
  def read(confs: Map[String, String]): Either[String, A] =
    confs.get(name) match {
      case None       => Right(default)
      case Some(text) => keyType.parse(text).left.map(problem => s"$name $problem.")
    }
}
