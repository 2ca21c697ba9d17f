package io.cleancut.cuts

import io.cleancut.format.CutLayout
import io.cleancut.objects._

/**
 * A store whose segments another driver sweeps when they are about to be read.
 *
 * @param before
 *   what that driver does first
 */
final class SweptWhenRead(under: ObjectStore, before: () => Any) extends ForwardingStore(under) {

  override def getRange(key: ObjectKey, offset: Long, length: Int): RangeResult = {
    if (under.head(key).isDefined && CutLayout.parseSegment(key.name).isDefined) {
      before()
      under.delete(Seq(key))
    }
    under.getRange(key, offset, length)
  }
}
