package io.cleancut.coordinator

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.format.{FrameKind, FrameName, FramePlace, PlacedFrame, StoreCut}
import io.cleancut.format.cut.{Cut, RunId, SealedFrame}

/** Frames and cuts for the ledgers, which never read their bytes. */
object LedgerFrames {
  val Left: StoreId = StoreId(0L, 0, "left")
  val Right: StoreId = StoreId(0L, 0, "right")
  val Other: StoreId = StoreId(0L, 1, "left")

  /** The version `number` that attempt `attempt` made. */
  def version(number: Long, attempt: Long): StateVersion =
    StateVersion(number, f"$number%016x$attempt%016x")

  /** A frame; its location is unique. */
  def frame(
      store: StoreId,
      number: Long,
      attempt: Long,
      kind: FrameKind = FrameKind.Delta,
      segment: String = "segment"
  ): PlacedFrame = {
    val name = FrameName(store, version(number, attempt), kind)
    PlacedFrame(name, FramePlace(s"$segment of $name", 0L, 1L, 0), attempt)
  }

  /** A base that maintenance writes of the version of `attempt`. */
  def base(store: StoreId, number: Long, attempt: Long): PlacedFrame =
    frame(store, number, attempt, FrameKind.Base).copy(attempt = SealedFrame.Maintenance)

  def delta(store: StoreId, number: Long, attempt: Long): (FrameKind, StateVersion, FramePlace) =
    entry(frame(store, number, attempt))

  def entry(frame: PlacedFrame): (FrameKind, StateVersion, FramePlace) =
    (frame.name.kind, frame.name.version, frame.place)

  def cut(epoch: Long, stores: StoreCut*): Cut =
    Cut(epoch, RunId(None, "run", 1L), s"token-$epoch", 0L, "", "", stores, Map.empty)
}
