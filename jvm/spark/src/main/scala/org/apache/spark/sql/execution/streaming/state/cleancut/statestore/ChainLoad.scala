package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.cleancut.framefiles.FrameFiles
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.{
  KeyColumns,
  SparkKeyOrder
}

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.engine.{Record, SourceLoad, StateLog}
import io.cleancut.engine.SourceLoad.Selection
import io.cleancut.error.CleancutException
import io.cleancut.format.{FrameKind, StoreCut, StoreLayout}
import io.cleancut.format.frame.{FamilySchema, FrameReader, FrameRequest, LoadWatch, Parent, Spread}
import io.cleancut.protocol.Chain

/**
 * Loads the frames of a store's chain into a log. If the chain begins with a base that references
 * other frames, these are read instead. A single source whose rows are all required is loaded like
 * the source store. Several sources, or filtered ones, are read completely, one after the other;
 * rows of other partitions are skipped. For one load.
 */
final private[cleancut] class ChainLoad(context: StoreContext, watch: LoadWatch) {
  import ChainLoad._

  private var isForeign = false

  /** Whether it has read sources that have rows of other stores, or several sources. */
  def hasForeignRows: Boolean = isForeign

  /**
   * @param log
   *   an empty log
   * @param onFrame
   *   called for each frame of the chain itself
   * @param onAvailable
   *   called when a base that was left on file can be read immediately
   */
  def apply(log: StateLog, chain: Chain, onFrame: FrameListener, onAvailable: () => Unit): Unit =
    load(
      log,
      context.files,
      chain,
      context.files.brokenChain(chain.target, _, _),
      onFrame,
      onAvailable
    )

  /** The column families after the last of some frames of the store. */
  def familiesAfter(frames: Seq[(StateVersion, FrameKind)]): Seq[FamilySchema] =
    familiesAfter(context.files, frames)

  private def load(
      log: StateLog,
      files: FrameFiles,
      chain: Chain,
      onBroken: BrokenChain,
      onFrame: FrameListener,
      onAvailable: () => Unit
  ): Unit = {
    chain.base.foreach(loadBase(log, files, _, onFrame, onAvailable))
    chain.deltas.foldLeft(chain.base) { (before, version) =>
      files.read(version, FrameKind.Delta, watch) { (reader, scratch) =>
        checkParent(reader, before, onBroken)
        log.load(reader, scratch)
        onFrame(version, FrameKind.Delta, reader.sizeBytes)
      }
      Some(version)
    }
    ()
  }

  /** Leaves the base on file if possible, and reads its rows on request. */
  private def loadBase(
      log: StateLog,
      files: FrameFiles,
      version: StateVersion,
      onFrame: FrameListener,
      onAvailable: () => Unit
  ): Unit = {
    val opened = if (context.settings.lazyRestore) files.openBase(version, watch) else None
    opened match {
      case Some(base) =>
        log.attach(base)
        onFrame(version, FrameKind.Base, base.sizeBytes)
        base.onAvailable(() => onAvailable())
      case None =>
        val reference = files.read(version, FrameKind.Base, watch) { (reader, scratch) =>
          val reference = referenceIn(reader)
          if (reference.isEmpty) log.load(reader, scratch)
          onFrame(version, FrameKind.Base, reader.sizeBytes)
          reference
        }
        reference.foreach(follow(log, files, version, _, onAvailable))
    }
  }

  private def follow(
      log: StateLog,
      files: FrameFiles,
      version: StateVersion,
      reference: Reference,
      onAvailable: () => Unit
  ): Unit = reference match {
    case Reference(store, Seq(only), None) =>
      val onBroken = brokenSource(files, store, version)
      load(log, files.of(only), chainOf(only), onBroken, count, onAvailable)
    case several =>
      isForeign = true
      val sources = loadSources(log, files, version, several, Selection.All)
      log.settle(several.familiesOf(sources.map(_.families)))
  }

  /**
   * Reads the sources of a base into the log.
   *
   * @param outer
   *   the rows that the log takes of this base
   */
  private def loadSources(
      log: StateLog,
      files: FrameFiles,
      version: StateVersion,
      reference: Reference,
      outer: Selection
  ): Seq[SourceLoad] = {
    val selection = outer.of(selectionOf(files, version, reference))
    reference.sources.map { source =>
      val load = new SourceLoad(log, selection)
      val onBroken = brokenSource(files, reference.store, version)
      loadSource(log, load, files.of(source), chainOf(source), selection, onBroken)
      load
    }
  }

  private def loadSource(
      log: StateLog,
      load: SourceLoad,
      files: FrameFiles,
      chain: Chain,
      selection: Selection,
      onBroken: BrokenChain
  ): Unit = {
    def read(version: StateVersion, kind: FrameKind, before: Option[StateVersion]) =
      files.read(version, kind, watch) { (reader, scratch) =>
        if (kind == FrameKind.Delta) checkParent(reader, before, onBroken)
        val reference = referenceIn(reader)
        if (reference.isEmpty) load.load(reader, scratch)
        count(version, kind, reader.sizeBytes)
        reference
      }
    for {
      version <- chain.base
      reference <- read(version, FrameKind.Base, None)
    } {
      val sources = loadSources(log, files, version, reference, selection)
      load.continue(sources, reference.familiesOf(sources.map(_.families)))
    }
    chain.deltas.foldLeft(chain.base) { (before, version) =>
      read(version, FrameKind.Delta, before)
      Some(version)
    }
    ()
  }

  /**
   * The rows that a base takes of its sources. Other keys must belong to another store with the
   * same source.
   */
  private def selectionOf(
      files: FrameFiles,
      version: StateVersion,
      reference: Reference
  ): Selection = reference.spread.fold(Selection.All) { spread =>
    val storePartition = reference.store.partition
    val share = spread.sourcePartitions.toDouble / spread.partitions
    Selection(
      share,
      family =>
        spread.keys.get(family.name).map { columns =>
          val handle = context.handle(family, table = null, Record.NoBound)
          val key = SparkKeyOrder.structOf(family.keySchema)
          val partition = KeyColumns.partitionOf(key, columns, spread.partitions)
          val row = new UnsafeRow(handle.keyFields)
          bytes => {
            val target = partition(handle.keyIn(row, bytes))
            if (!spread.shareSource(target, storePartition)) {
              val detail =
                s"a key of partition $target of ${spread.partitions} is in a source that " +
                  s"has rows of partition $storePartition: no store would contain it"
              throw damaged(files, reference.store, version, detail)
            }
            target == storePartition
          }
        }
    )
  }

  // Only the frame sizes of the store's own chain matter.
  private val count: FrameListener = (_, _, sizeBytes) => {
    context.metrics.loadedFrames.incrementAndGet()
    context.metrics.loadedBytes.addAndGet(sizeBytes)
    ()
  }

  private def familiesAfter(
      files: FrameFiles,
      frames: Seq[(StateVersion, FrameKind)]
  ): Seq[FamilySchema] =
    frames.reverseIterator
      .map { case (version, kind) => familiesIn(files, version, kind) }
      .find(_.nonEmpty)
      .getOrElse(Nil)

  private def familiesIn(
      files: FrameFiles,
      version: StateVersion,
      kind: FrameKind
  ): Seq[FamilySchema] = {
    val (listed, reference) =
      files.read(version, kind)((reader, _) => (reader.identity.families, referenceIn(reader)))
    reference.fold(listed) { reference =>
      reference.familiesOf(reference.sources.map { source =>
        val frames = source.frames.map { case (kind, version, _) => (version, kind) }
        familiesAfter(files.of(source), frames)
      })
    }
  }

  private def checkParent(
      reader: FrameReader,
      before: Option[StateVersion],
      onBroken: BrokenChain
  ): Unit = {
    val expected = before.fold(Parent(0L, None))(b => Parent(b.number, Some(b.id)))
    val identity = reader.identity
    val parent = identity.parent.get
    if (parent != expected) {
      val frame = s"the frame ${StoreLayout.objectName(identity.version, FrameKind.Delta)}"
      val detail = s"$frame of the store ${identity.store} applies to ${describe(parent)}, " +
        s"and the chain has ${describe(expected)} before it"
      throw onBroken(parent, detail)
    }
  }

  /** The chain of a source is in the base that references it. */
  private def brokenSource(files: FrameFiles, store: StoreId, version: StateVersion): BrokenChain =
    (_, detail) => damaged(files, store, version, detail)

  private def damaged(
      files: FrameFiles,
      store: StoreId,
      version: StateVersion,
      detail: String
  ): CleancutException = {
    val path = files.path(version, FrameKind.Base)
    FrameRequest(path, store, version, FrameKind.Base).damaged(detail)
  }
}

private[cleancut] object ChainLoad {

  /** Called for each frame with its version, kind, and size in bytes. */
  type FrameListener = (StateVersion, FrameKind, Long) => Unit

  /** The error for a frame whose parent, given here, is not the frame before it in the chain. */
  private type BrokenChain = (Parent, String) => CleancutException

  /** The references of a base that has no rows. */
  final private case class Reference(
      store: StoreId,
      sources: Seq[StoreCut],
      spread: Option[Spread]
  ) {

    /** The families of the base, given those of its sources. */
    def familiesOf(sources: Seq[Seq[FamilySchema]]): Seq[FamilySchema] =
      SourceLoad.union(
        sources.map(_.filter(family => spread.forall(_.keys.contains(family.name))))
      )
  }

  private def referenceIn(reader: FrameReader): Option[Reference] =
    Option.when(reader.isReferring) {
      Reference(reader.identity.store, reader.sources(), reader.identity.spread)
    }

  private def chainOf(source: StoreCut): Chain = {
    val versions = source.frames.map(_._2)
    if (source.base.isDefined) Chain(Some(versions.head), versions.tail)
    else Chain(None, versions)
  }

  private def describe(parent: Parent): String =
    parent.id.fold(s"version ${parent.version}")(id => s"version ${parent.version}-$id")
}
