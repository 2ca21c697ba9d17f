package io.cleancut.coordinator

import io.cleancut.format.CutLayout
import io.cleancut.objectstore.{ObjectInfo, ObjectKey, ObjectStore}

/** A store as a driver sees it that looks for its successor just before that comes. */
final class BlindToOwners(under: ObjectStore, isBlind: () => Boolean)
    extends ForwardingStore(under) {

  override def head(key: ObjectKey): Option[ObjectInfo] =
    under.head(key).filter(_ => !key.name.contains(CutLayout.Owners) || !isBlind())
}
