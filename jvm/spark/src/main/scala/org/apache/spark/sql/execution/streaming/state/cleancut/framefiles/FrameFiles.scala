package org.apache.spark.sql.execution.streaming.state.cleancut.framefiles

import java.io.OutputStream

import io.cleancut.base.StateVersion
import io.cleancut.coordinator.state.Opened
import io.cleancut.protocol.StoreListing
import io.cleancut.format.{FrameKind, StoreCut}
import io.cleancut.format.frame.{BaseFrame, BlockScratch, FrameReader, LoadWatch}

/** A frame that is being written. It counts from [[commit]] on, and leaves nothing if cancelled. */
private[cleancut] trait PendingFrame extends OutputStream {
  def commit(): Unit
  def cancel(): Unit
}

/** The frames of one store, wherever they lie. */
private[cleancut] trait FrameFiles {

  /** For messages. */
  def location: String

  /** Where a frame is or will be, for messages. */
  def path(version: StateVersion, kind: FrameKind): String

  /** A task is about to write the version after this one. `id` is the one that Spark named. */
  def open(version: Long, id: Option[String]): Opened

  /** The id of the version that counts, for reading; `id` is the one that Spark named. */
  def accepted(version: Long, id: Option[String]): Option[String]

  /** All frames that the versions from `first` to `last` are made of, and possibly more. */
  def list(first: Long, last: Long, watch: LoadWatch = LoadWatch.Off): StoreListing

  def create(version: StateVersion, kind: FrameKind): PendingFrame

  /** Runs `read` on a frame that was checked against its identity. */
  def read[A](version: StateVersion, kind: FrameKind, watch: LoadWatch = LoadWatch.Off)(
      read: (FrameReader, BlockScratch) => A
  ): A

  /**
   * A base that is read block by block as its keys are asked for; None if it is small, or has to be
   * read as a whole. The caller closes it.
   */
  def openBase(version: StateVersion, watch: LoadWatch): Option[BaseFrame]

  /** The frames of another store, of which this is a chain. */
  def of(chain: StoreCut): FrameFiles

  /** Deletes what no version from `keepFrom` on needs; whether that is all of it. */
  def deleteBefore(keepFrom: Long, maxVersions: Int): Boolean

  /** Says at the root what lies there. */
  def markRoot(): Unit

  /** Refuses a root that this release cannot read. */
  def checkRoot(): Unit
}

private[cleancut] object FrameFiles {

  /** System property that sets [[minOpenedBytes]], for tests. */
  private val MinOpenedBytes = "cleancut.lazyRestore.minBytes"

  /** A base of less is read as a whole: to leave it on file would save less than it costs. */
  def minOpenedBytes: Long = java.lang.Long.getLong(MinOpenedBytes, 1L << 20)
}
