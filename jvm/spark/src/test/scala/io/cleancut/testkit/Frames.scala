package io.cleancut.testkit

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.format.FrameKind
import io.cleancut.format.frame._

/** Frames in memory. */
object Frames {
  val Store: StoreId = StoreId(operator = 3, partition = 7, name = "left-keyToNumValues")

  /** The version `number` under the id of attempt `attempt`. */
  def version(number: Long, attempt: Int = 1): StateVersion =
    StateVersion(number, f"$number%016x$attempt%016x")

  /** A frame as bytes, with its kind and identity. */
  final case class Frame(kind: FrameKind, identity: FrameIdentity, bytes: Array[Byte]) {
    def request: FrameRequest =
      FrameRequest(s"memory/${identity.version}", identity.store, identity.version, kind)

    def read[A](use: (FrameReader, BlockScratch) => A): A = Frames.read(request, bytes)(use)

    /** The frame as a base whose blocks are read lazily, if it is a base. */
    def open(): Option[BaseFrame] = BaseFrame.open(request, new InMemory(bytes))
  }

  def delta(version: StateVersion, parent: Option[StateVersion]): FrameIdentity = {
    val before = parent.fold(Parent(0L, None))(p => Parent(p.number, Some(p.id)))
    FrameIdentity(Store, version, Some(before), Nil)
  }

  def base(version: StateVersion, keys: Long): FrameIdentity =
    FrameIdentity(Store, version, None, Nil, Some(keys))

  def write(identity: FrameIdentity)(fill: FrameWriter => Unit): Frame = {
    val open = new Open(identity)
    fill(open.writer)
    open.done()
  }

  /** A frame that is written incrementally. */
  final class Open(identity: FrameIdentity) {
    private val kind = if (identity.parent.isDefined) FrameKind.Delta else FrameKind.Base
    private val out = new ByteArrayOutputStream
    val writer: FrameWriter = new FrameWriter(kind, identity, compressionLevel = 1, out)
    def done(): Frame = Frame(kind, identity, out.toByteArray)
  }

  /** Frame bytes in memory. */
  final class InMemory(bytes: Array[Byte]) extends FrameBytes {
    override def length: Long = bytes.length.toLong

    override def read(offset: Long, into: Array[Byte], count: Int): Unit =
      System.arraycopy(bytes, offset.toInt, into, 0, count)

    override def close(): Unit = ()
  }

  def read[A](
      request: FrameRequest,
      bytes: Array[Byte]
  )(use: (FrameReader, BlockScratch) => A): A = {
    val scratch = BlockScratch.borrow()
    try use(new FrameReader(request, new ByteArrayInputStream(bytes), scratch), scratch)
    finally scratch.giveBack()
  }
}
