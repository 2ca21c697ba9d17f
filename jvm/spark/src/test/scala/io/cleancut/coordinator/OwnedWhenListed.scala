package io.cleancut.coordinator

import io.cleancut.format.CutLayout
import io.cleancut.objectstore.{ObjectInfo, ObjectPrefix, ObjectStore}

/** A store in which another run takes over as soon as this one has found the last cut. */
final class OwnedWhenListed(under: ObjectStore, follow: () => Any) extends ForwardingStore(under) {
  private var isFollowed = false

  override def list(prefix: ObjectPrefix): Iterator[ObjectInfo] = {
    val found = under.list(prefix).toSeq
    if (prefix.name == CutLayout.Cuts && !isFollowed) {
      isFollowed = true
      follow()
    }
    found.iterator
  }
}
