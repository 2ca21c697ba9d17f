package io.cleancut.objectstore

/** An entry in a listing of one level. */
sealed trait Listed

object Listed {

  final case class Here(info: ObjectInfo) extends Listed

  /** A prefix one level deeper that has objects; in a file system, or once had. */
  final case class Below(prefix: ObjectPrefix) extends Listed

  /**
   * An object of others whose name no [[ObjectKey]] can have.
   *
   * @param name
   *   name below the location of the store
   */
  final case class Foreign(name: String) extends Listed
}
