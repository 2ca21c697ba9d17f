package io.cleancut.coordinator

import io.cleancut.format.CutLayout
import io.cleancut.objectstore.{ObjectKey, ObjectStore, RangeResult}

/**
 * An object store in which another driver deletes segments just before they are read.
 *
 * @param epoch
 *   epoch of the segments
 * @param before
 *   action before the deletion
 */
final class ConcurrentSweepStore(under: ObjectStore, epoch: Long, before: () => Any)
    extends ForwardingStore(under) {

  override def getRange(key: ObjectKey, offset: Long, length: Int): RangeResult = {
    if (under.head(key).isDefined && CutLayout.parseSegment(key.name).contains(epoch)) {
      before()
      under.delete(Seq(key))
    }
    under.getRange(key, offset, length)
  }
}
