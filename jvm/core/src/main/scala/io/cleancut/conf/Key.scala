package io.cleancut.conf

/**
 * One configuration key. All keys are declared in [[Keys]].
 *
 * @param shortName
 *   the part after [[Keys.Prefix]]
 * @param doc
 *   description, with the costs of higher and lower values
 * @param since
 *   first release with the key
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

  /** The value in `confs`, the default if it is not set, or a description of the problem. */
  def read(confs: Map[String, String]): Either[String, A] =
    confs.get(name) match {
      case None       => Right(default)
      case Some(text) => keyType.parse(text).left.map(problem => s"$name $problem.")
    }
}
