package io.cleancut.cutstore

import io.cleancut.format.NameDigits
import io.cleancut.objectstore.{ObjectInfo, ObjectKey, ObjectPrefix, ObjectRange, ObjectStore}

/** Objects whose names begin with their epochs. */
private[cutstore] object EpochObjects {
  val Gone = "the object is missing, but a cut references it"

  /** The objects of the epochs in [`from`, `until`). Makes no request if the range is empty. */
  def list(root: ObjectStore, directory: String, from: Long, until: Long): Iterator[ObjectInfo] = {
    def limit(epoch: Long) = directory + NameDigits.padded(Math.max(epoch, 0L))
    if (until <= Math.max(from, 0L)) Iterator.empty
    else root.listRange(ObjectRange(ObjectPrefix(directory), limit(from), limit(until)))
  }

  /** The same with their epochs. */
  def listWithEpochs(root: ObjectStore, directory: String, from: Long, until: Long)(
      epochOf: String => Option[Long]
  ): Seq[(Long, ObjectInfo)] = {
    val isAll = from <= 0L && until == Long.MaxValue
    val infos =
      if (isAll) root.list(ObjectPrefix(directory)) else list(root, directory, from, until)
    infos.flatMap(info => epochOf(info.key.name).map(_ -> info)).toSeq
  }

  def keysOf(infos: Seq[(Long, ObjectInfo)]): Seq[(Long, ObjectKey)] =
    infos.map { case (epoch, info) => epoch -> info.key }
}
