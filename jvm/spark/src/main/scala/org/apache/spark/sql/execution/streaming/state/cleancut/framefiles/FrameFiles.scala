package org.apache.spark.sql.execution.streaming.state.cleancut.framefiles

import java.io.OutputStream

import io.cleancut.base.StateVersion
import io.cleancut.coordinator.state.Opened
import io.cleancut.error.CleancutException
import io.cleancut.protocol.StoreListing
import io.cleancut.format.{FrameKind, StoreCut}
import io.cleancut.format.frame.{BaseFrame, BlockScratch, FrameReader, LoadWatch, Parent}

/**
 * A frame that is being written. It is visible after [[commit]], and leaves nothing if cancelled.
 */
private[cleancut] trait PendingFrame extends OutputStream {
  def commit(): Unit
  def cancel(): Unit
}

/** The frames of one store, in any location. */
private[cleancut] trait FrameFiles {

  /** For messages. */
  def location: String

  /** The location of an existing or future frame, for messages. */
  def path(version: StateVersion, kind: FrameKind): String

  /** A task is about to write the version after this one. `id` is the ID from Spark. */
  def open(version: Long, id: Option[String]): Opened

  /** The ID of the version that counts, for reading; `id` is the ID from Spark. */
  def accepted(version: Long, id: Option[String]): Option[String]

  /** All frames of the versions from `first` to `last`, and possibly more. */
  def list(first: Long, last: Long, watch: LoadWatch = LoadWatch.Off): StoreListing

  def create(version: StateVersion, kind: FrameKind): PendingFrame

  /** Runs `read` on a frame that was checked against its identity. */
  def read[A](version: StateVersion, kind: FrameKind, watch: LoadWatch = LoadWatch.Off)(
      read: (FrameReader, BlockScratch) => A
  ): A

  /**
   * A base whose blocks are read when their keys are requested; None if it is small, or must be
   * read completely. The caller closes it.
   */
  def openBase(version: StateVersion, watch: LoadWatch): Option[BaseFrame]

  /**
   * The error for a chain with a frame that does not apply to the frame before it.
   *
   * @param target
   *   the last version of the chain
   * @param parent
   *   the version that the frame applies to
   */
  def brokenChain(target: StateVersion, parent: Parent, detail: String): CleancutException

  /** The frames of another store with this chain. */
  def of(chain: StoreCut): FrameFiles

  /**
   * Deletes files that versions from `keepFrom` on do not reference; returns whether none is left.
   */
  def deleteBefore(keepFrom: Long, maxVersions: Int): Boolean

  /** Writes the format marker to the root. */
  def markRoot(): Unit

  /** Refuses a root that this release cannot read. */
  def checkRoot(): Unit
}

private[cleancut] object FrameFiles {

  /** System property that sets [[minOpenedBytes]], for tests. */
  private val MinOpenedBytes = "cleancut.lazyRestore.minBytes"

  /**
   * Size below which a base is read completely: leaving it on file would save less than it costs.
   */
  def minOpenedBytes: Long = java.lang.Long.getLong(MinOpenedBytes, 1L << 20)
}
