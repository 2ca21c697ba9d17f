package io.cleancut.objectstore

/** What a listing of one level shows. */
sealed trait Listed

object Listed {

  final case class Here(info: ObjectInfo) extends Listed

  /** A prefix one level deeper, which objects lie below; in a file system, or once did. */
  final case class Below(prefix: ObjectPrefix) extends Listed

  /**
   * What others have put there under a name that no [[ObjectKey]] can have.
   *
   * @param name
   *   below the location of the store
   */
  final case class Foreign(name: String) extends Listed
}
