package io.cleancut.format

import io.cleancut.base.{StateVersion, StoreId}

/**
 * One store in a cut: the frames of its version, oldest first. They begin with a base, or with the
 * delta of version 1.
 */
final case class StoreCut(store: StoreId, frames: Seq[(FrameKind, StateVersion, FramePlace)]) {
  require(frames.nonEmpty, s"no frames of $store")
  def version: StateVersion = frames.last._2

  /** The first frame, if it is a base. */
  def base: Option[(FrameName, FramePlace)] = {
    val (kind, version, place) = frames.head
    Option.when(kind == FrameKind.Base)((FrameName(store, version, kind), place))
  }
}

/** Assembles the frames of a store to a chain. See `docs/FORMAT.md`, "Chain of a store". */
object Chains {
  type Frame = (FrameKind, StateVersion, FramePlace)

  /**
   * The chain of a store after an epoch, from frames in any order: the base with the greatest
   * version replaces all frames up to its version. Throws `IllegalArgumentException` if they form
   * no chain.
   */
  def of(store: StoreId, epoch: Long, frames: Iterable[Frame]): StoreCut = {
    require(frames.nonEmpty, s"no frames of $store")
    val base = frames.iterator.filter(_._1 == FrameKind.Base).maxByOption(_._2.number)
    val from = base.fold(0L)(_._2.number)
    val after = frames.iterator.filter(_._2.number > from).toVector.sortBy(_._2.number)
    base.foreach { known =>
      val isOnly = frames.forall(frame => !isBaseOf(frame, from) || frame == known)
      require(isOnly, s"there are two bases of version $from of $store")
    }
    checked(epoch, StoreCut(store, base.toVector ++ after))
  }

  private def isBaseOf(frame: Frame, version: Long) =
    frame._1 == FrameKind.Base && frame._2.number == version

  /** Throws `IllegalArgumentException` if these frames are no chain to the epoch's version. */
  def checked(epoch: Long, store: StoreCut): StoreCut = {
    val frames = store.frames
    val last = frames.last._2.number
    require(last == epoch + 1, s"the frames of ${store.store} end with $last")
    var before = frames.head._2.number - 1
    frames.foreach { case (_, version, _) =>
      if (version.number != before + 1) {
        val numbers = frames.map(_._2.number).mkString(", ")
        throw new IllegalArgumentException(s"the versions of ${store.store} are $numbers")
      }
      before = version.number
    }
    val isWithin = frames.tail.exists(_._1 == FrameKind.Base)
    require(!isWithin, s"a base of ${store.store} follows a frame")
    val (kind, first, _) = frames.head
    require(kind == FrameKind.Base || first.number == 1L, s"no base of ${store.store}")
    store
  }
}
