package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.cleancut.framefiles.FrameFiles
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.{
  KeyColumns,
  SparkKeyOrder
}

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.engine.{Record, StateLog}
import io.cleancut.error.{CleancutException, Errors}
import io.cleancut.format.{FrameKind, StoreCut}
import io.cleancut.format.frame.{FamilySchema, FrameReader, FrameRequest, LoadWatch, Parent, Spread}
import io.cleancut.protocol.Chain

/**
 * Loads the frames of a store's chain into a log. If the chain begins with a base that references
 * other frames, these are read instead. A single source whose rows are all required is loaded like
 * the source store. Several sources, or filtered ones, are loaded one after the other into separate
 * logs.
 */
final private[cleancut] class ChainLoad(context: StoreContext, watch: LoadWatch) {
  import ChainLoad._

  /**
   * @param log
   *   an empty log
   * @param onFrame
   *   called for each frame of the chain itself
   * @param onAvailable
   *   called when a base that was left on file can be read immediately
   */
  def apply(log: StateLog, chain: Chain, onFrame: FrameListener, onAvailable: () => Unit): Unit =
    load(log, context.files, chain, onFrame, onAvailable)

  /** The column families after the last of some frames of the store. */
  def familiesAfter(frames: Seq[(StateVersion, FrameKind)]): Seq[FamilySchema] =
    familiesAfter(context.files, frames)

  private def load(
      log: StateLog,
      files: FrameFiles,
      chain: Chain,
      onFrame: FrameListener,
      onAvailable: () => Unit
  ): Unit = {
    chain.base.foreach(loadBase(log, files, _, onFrame, onAvailable))
    chain.deltas.foldLeft(chain.base) { (before, version) =>
      files.read(version, FrameKind.Delta, watch) { (reader, scratch) =>
        checkParent(files, reader, version, before)
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
    case Reference(_, Seq(only), None) =>
      load(log, files.of(only), chainOf(only), count, onAvailable)
    case Reference(store, sources, spread) =>
      val keys = sources.map { source =>
        val loaded = context.newLog()
        try {
          load(loaded, files.of(source), chainOf(source), count, () => ())
          log.absorb(loaded, wanted(files, store, version, spread, _))
        } finally loaded.release()
      }
      if (keys.sum != log.allKeys) {
        throw damaged(files, store, version, "two of its sources have the same key")
      }
  }

  /**
   * The keys of a family that belong to the store. Other keys must belong to another store with the
   * same source.
   */
  private def wanted(
      files: FrameFiles,
      store: StoreId,
      version: StateVersion,
      spread: Option[Spread],
      family: FamilySchema
  ): Option[Long => Boolean] =
    spread match {
      case None         => Some(_ => true)
      case Some(spread) =>
        spread.keys.get(family.name).map { columns =>
          val handle = context.handle(family, table = null, Record.NoBound)
          val key = SparkKeyOrder.structOf(family.keySchema)
          val partition = KeyColumns.partitionOf(key, columns, spread.partitions)
          val row = new UnsafeRow(handle.keyFields)
          address => {
            val target = partition(handle.keyAt(row, address))
            if (!spread.shareSource(target, store.partition)) {
              val detail =
                s"a key of partition $target of ${spread.partitions} is in a source that " +
                  s"has rows of partition ${store.partition}: no store would contain it"
              throw damaged(files, store, version, detail)
            }
            target == store.partition
          }
        }
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
    reference.fold(listed) { case Reference(_, sources, spread) =>
      // In the form that they have in the log into which they are loaded.
      val log = context.newLog()
      try {
        sources.foreach { source =>
          val families = familiesAfter(
            files.of(source),
            source.frames.map { case (kind, version, _) => (version, kind) }
          )
          log.join(families.filter(family => spread.forall(_.keys.contains(family.name))))
        }
        log.families.map(_.schema)
      } finally log.release()
    }
  }

  private def checkParent(
      files: FrameFiles,
      reader: FrameReader,
      version: StateVersion,
      before: Option[StateVersion]
  ): Unit = {
    val expected = before.fold(Parent(0L, None))(b => Parent(b.number, Some(b.id)))
    val parent = reader.identity.parent.get
    if (parent != expected) {
      val store = reader.identity.store
      throw Errors.frameMissing(
        files.location,
        store.operator,
        store.partition,
        store.name,
        parent.version,
        s"version ${version.number} cannot be built: the delta $version applies to " +
          s"${describe(parent)}, but the chain has ${describe(expected)}"
      )
    }
  }

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

  /** The references of a base that has no rows. */
  final private case class Reference(
      store: StoreId,
      sources: Seq[StoreCut],
      spread: Option[Spread]
  )

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
    parent.id.fold(s"version ${parent.version}")(id => s"${parent.version}-$id")
}
