package io.cleancut.coordinator

import io.cleancut.format.CutLayout
import io.cleancut.objectstore.{ObjectInfo, ObjectKey, ObjectStore}

/** An object store that hides later owners, as from a driver that checks just too early. */
final class StaleOwnerStore(under: ObjectStore, isBlind: () => Boolean)
    extends ForwardingStore(under) {

  override def head(key: ObjectKey): Option[ObjectInfo] = under.head(key).filter(_ => isShown(key))

  override def get(key: ObjectKey): Option[Array[Byte]] = under.get(key).filter(_ => isShown(key))

  private def isShown(key: ObjectKey) = !key.name.contains(CutLayout.Owners) || !isBlind()
}
