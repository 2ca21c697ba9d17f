package io.cleancut.protocol

import io.cleancut.StateVersion
import io.cleancut.format.{FrameKind, StoreLayout}

/** The frames that one listing of a store's directory found. */
final case class StoreListing(bases: Set[StateVersion], deltas: Set[StateVersion]) {

  val frames: Set[StateVersion] = bases ++ deltas

  private val byNumber: Map[Long, Seq[StateVersion]] =
    frames.toSeq.groupBy(_.number).map { case (n, found) => n -> found.sortBy(_.id) }

  /** The versions with this number, by id: several where more than one attempt committed. */
  def at(number: Long): Seq[StateVersion] = byNumber.getOrElse(number, Nil)

  def latest: Option[Long] = byNumber.keys.maxOption

  def oldest: Option[Long] = byNumber.keys.minOption
}

object StoreListing {

  /** Names that are not frames (temporary files, checksum files) are passed over. */
  def fromNames(names: Iterable[String]): StoreListing = {
    val parsed = names.flatMap(StoreLayout.parseObjectName).toSeq
    def of(kind: FrameKind) = parsed.collect { case (version, `kind`) => version }.toSet
    StoreListing(of(FrameKind.Base), of(FrameKind.Delta))
  }
}
