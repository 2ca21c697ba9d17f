package io.cleancut.engine

import scala.collection.mutable

import org.scalatest.Assertions

import io.cleancut.base.StateVersion
import io.cleancut.engine.memory.Memory
import io.cleancut.format.frame.FamilyTotals
import io.cleancut.testkit.Frames
import io.cleancut.engine.OneFamily._
import io.cleancut.testkit.Blob.Lists
import io.cleancut.testkit.Frames.Frame

/** The frames that a [[LogMachine]] has written, as chains by the id of their version. */
final private[engine] class LogFiles(memory: Memory) extends Assertions {
  private val chains = mutable.Map.empty[String, Seq[Frame]]

  def chain(id: String): Seq[Frame] = chains(id)

  def replaceBy(base: Frame): Unit = chains(base.identity.version.id) = Seq(base)

  def base(log: StateLog, target: StateVersion, blockBytes: Int, maxBlockBytes: Int): Frame = {
    log.complete()
    val version = log.find(target.number, Some(target.id)).get
    val base = Frames.write(Frames.base(target, version.mark.keys)) {
      log.writeBase(version, _, blockBytes, maxBlockBytes)
    }
    verifyBlocks(base, maxBlockBytes)
    base
  }

  /** Checks that no block with several records exceeds the limit. */
  private def verifyBlocks(base: Frame, maxBytes: Int): Unit = base.read { (reader, _) =>
    var records = reader.nextBlock()
    while (records > 0) {
      assert(records == 1 || reader.rawLength <= maxBytes)
      records = reader.nextBlock()
    }
  }

  /** A delta after `parent` without records, with these totals. */
  def emptyDelta(parent: StateVersion, totals: FamilyTotals): Frame = {
    val target = Frames.version(parent.number + 1)
    Frames.write(Frames.delta(target, Some(parent))) {
      _.finish(totals.keys, Map(Schema.id -> totals))
    }
  }

  /** Applies the frames in order, and compares the counts of their trailers. */
  def load(frames: Seq[Frame], into: StateLog): Unit =
    frames.foreach(frame => frame.read((reader, scratch) => into.load(reader, scratch)))

  /** Applies the frames without reading the base; returns whether there is one. */
  def attach(frames: Seq[Frame], into: StateLog, sparse: SparseReads): Boolean = {
    val base = frames.headOption.filter(_.identity.parent.isEmpty).flatMap(_.open())
    base.foreach(into.attach(_, sparse))
    load(if (base.isDefined) frames.tail else frames, into)
    base.isDefined
  }

  /**
   * Checks that the frames contain exactly these rows. `into` is an empty log, which is released.
   */
  def verifyLoads(frames: Seq[Frame], rows: Lists, into: StateLog): Unit =
    try {
      load(frames, into)
      val scan = new OpenFullScan(memory, into, rows, Record.NoBound)
      assert(!scan.take(Int.MaxValue))
      scan.close()
    } finally into.release()

  /** The delta that an epoch writes while it changes the log. */
  final class Delta(log: StateLog, val target: StateVersion) {
    private val parent = log.latest.id.map(StateVersion(log.latest.number, _))
    private var frame: Frames.Open = _
    private val writer = log.deltaTo { _ =>
      frame = new Frames.Open(Frames.delta(target, parent))
      frame.writer
    }

    def keepUp(): Unit = writer.cursor(log.only).keepUp()

    def finish(): Unit = {
      writer.finish()
      chains(target.id) = parent.fold(Seq.empty[Frame])(p => chains(p.id)) :+ frame.done()
    }
  }
}
