package io.cleancut.coordinator

import io.cleancut.format.CutLayout
import io.cleancut.objectstore.{ObjectKey, ObjectStore, RangeResult}

/**
 * A store whose segments another driver sweeps when they are about to be read.
 *
 * @param epoch
 *   of the segments
 * @param before
 *   what that driver does first
 */
final class SweptWhenRead(under: ObjectStore, epoch: Long, before: () => Any)
    extends ForwardingStore(under) {

  override def getRange(key: ObjectKey, offset: Long, length: Int): RangeResult = {
    if (under.head(key).isDefined && CutLayout.parseSegment(key.name).contains(epoch)) {
      before()
      under.delete(Seq(key))
    }
    under.getRange(key, offset, length)
  }
}
