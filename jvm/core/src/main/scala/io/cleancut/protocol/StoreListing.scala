package io.cleancut.protocol

import io.cleancut.base.StateVersion
import io.cleancut.format.{FrameKind, StoreLayout}

/**
 * The result of listing a store's directory: its frames, and temporary files of frames, which are
 * being written or were left by a crash.
 */
final case class StoreListing(
    bases: Set[StateVersion],
    deltas: Set[StateVersion],
    temporaries: Set[StoreListing.Temporary] = Set.empty
) {

  val frames: Set[StateVersion] = bases ++ deltas

  private val byNumber: Map[Long, Seq[StateVersion]] =
    frames.toSeq.groupBy(_.number).map { case (n, versions) => n -> versions.sortBy(_.id) }

  /** The versions with this number, ordered by ID: several if more than one attempt committed. */
  def at(number: Long): Seq[StateVersion] = byNumber.getOrElse(number, Nil)

  def latest: Option[Long] = byNumber.keys.maxOption

  def and(other: StoreListing): StoreListing =
    StoreListing(bases ++ other.bases, deltas ++ other.deltas, temporaries ++ other.temporaries)
}

object StoreListing {

  /** A temporary file of a frame with this version number. */
  final case class Temporary(number: Long, name: String)

  /** Ignores names that belong to no frame, such as checksum files of the file system. */
  def fromNames(names: Iterable[String]): StoreListing = {
    val parsed = names.flatMap(StoreLayout.parseObjectName).toSeq
    def of(kind: FrameKind) = parsed.collect { case (version, `kind`) => version }.toSet
    val temporaries = names.flatMap { name =>
      StoreLayout.parseTemporaryName(name).map(number => Temporary(number, name))
    }
    StoreListing(of(FrameKind.Base), of(FrameKind.Delta), temporaries.toSet)
  }
}
