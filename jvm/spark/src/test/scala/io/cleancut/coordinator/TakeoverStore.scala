package io.cleancut.coordinator

import io.cleancut.format.CutLayout
import io.cleancut.objectstore.{ObjectInfo, ObjectPrefix, ObjectStore}

/** An object store in which another run takes over as soon as the first listing of cuts is done. */
final class TakeoverStore(under: ObjectStore, follow: () => Any) extends ForwardingStore(under) {
  private var isFollowed = false

  override def list(prefix: ObjectPrefix): Iterator[ObjectInfo] = {
    val listed = under.list(prefix).toSeq
    if (prefix.name == CutLayout.Cuts && !isFollowed) {
      isFollowed = true
      follow()
    }
    listed.iterator
  }
}
