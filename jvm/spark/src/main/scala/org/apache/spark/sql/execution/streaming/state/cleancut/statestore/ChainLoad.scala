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
 * Puts the frames of a store's chain into a log. Where the chain begins with a base that refers to
 * others, these are read in its place: one that has all rows of one store as that store would be
 * read, and of several, or where not all rows are wanted, one after the other in a log of its own.
 */
final private[cleancut] class ChainLoad(context: StoreContext, watch: LoadWatch) {
  import ChainLoad._

  /**
   * @param log
   *   empty
   * @param told
   *   of each frame of the chain itself
   * @param whenAtHand
   *   what to do when a base that was left on file can be read at once
   */
  def apply(log: StateLog, chain: Chain, told: Told, whenAtHand: () => Unit): Unit =
    load(log, context.files, chain, told, whenAtHand)

  /** The column families that there are after the last of some frames of the store. */
  def familiesAfter(frames: Seq[(StateVersion, FrameKind)]): Seq[FamilySchema] =
    familiesAfter(context.files, frames)

  private def load(
      log: StateLog,
      files: FrameFiles,
      chain: Chain,
      told: Told,
      whenAtHand: () => Unit
  ): Unit = {
    chain.base.foreach(loadBase(log, files, _, told, whenAtHand))
    chain.deltas.foldLeft(chain.base) { (before, version) =>
      files.read(version, FrameKind.Delta, watch) { (reader, scratch) =>
        checkParent(files, reader, version, before)
        log.load(reader, scratch)
        told(version, FrameKind.Delta, reader.sizeBytes)
      }
      Some(version)
    }
    ()
  }

  /** Leaves the base on file if it can be, and has it read as its rows are asked for. */
  private def loadBase(
      log: StateLog,
      files: FrameFiles,
      version: StateVersion,
      told: Told,
      whenAtHand: () => Unit
  ): Unit = {
    val opened = if (context.settings.lazyRestore) files.openBase(version, watch) else None
    opened match {
      case Some(base) =>
        log.attach(base)
        told(version, FrameKind.Base, base.sizeBytes)
        base.whenAtHand(() => whenAtHand())
      case None =>
        val reference = files.read(version, FrameKind.Base, watch) { (reader, scratch) =>
          val found = referenceIn(reader)
          if (found.isEmpty) log.load(reader, scratch)
          told(version, FrameKind.Base, reader.sizeBytes)
          found
        }
        reference.foreach(follow(log, files, version, _, whenAtHand))
    }
  }

  private def follow(
      log: StateLog,
      files: FrameFiles,
      version: StateVersion,
      reference: Reference,
      whenAtHand: () => Unit
  ): Unit = reference match {
    case Reference(_, Seq(only), None) =>
      load(log, files.of(only), chainOf(only), count, whenAtHand)
    case Reference(store, sources, spread) =>
      val keys = sources.map { source =>
        val own = context.newLog()
        try {
          load(own, files.of(source), chainOf(source), count, () => ())
          log.absorb(own, wanted(files, store, version, spread, _))
        } finally own.release()
      }
      if (keys.sum != log.allKeys) {
        throw damaged(files, store, version, "two of its sources have the same key")
      }
  }

  /**
   * Which keys of a family the store is to have. A key that is left out must belong to another
   * store with the same source.
   */
  private def wanted(
      files: FrameFiles,
      store: StoreId,
      version: StateVersion,
      spread: Option[Spread],
      family: FamilySchema
  ): Option[Long => Boolean] =
    spread match {
      case None     => Some(_ => true)
      case Some(of) =>
        of.keys.get(family.name).map { columns =>
          val handle = context.handle(family, table = null, Record.NoBound)
          val key = SparkKeyOrder.structOf(family.keySchema)
          val partition = KeyColumns.partitionOf(key, columns, of.partitions)
          val row = new UnsafeRow(handle.keyFields)
          address => {
            val own = partition(handle.keyAt(row, address))
            if (!of.shareSource(own, store.partition)) {
              val detail = s"a key of partition $own of ${of.partitions} is in a source that " +
                s"has rows of partition ${store.partition}: no store would have it"
              throw damaged(files, store, version, detail)
            }
            own == store.partition
          }
        }
    }

  // Of the store's own chain alone it matters how large its frames are.
  private val count: Told = (_, _, sizeBytes) => {
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
    val (own, reference) =
      files.read(version, kind)((reader, _) => (reader.identity.families, referenceIn(reader)))
    reference.fold(own) { case Reference(_, sources, spread) =>
      // As a log has them that they are put into.
      val log = context.newLog()
      try {
        sources.foreach { source =>
          val families = familiesAfter(
            files.of(source),
            source.frames.map { case (kind, version, _) => (version, kind) }
          )
          log.join(families.filter(of => spread.forall(_.keys.contains(of.name))))
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
    val found = reader.identity.parent.get
    if (found != expected) {
      val store = reader.identity.store
      throw Errors.frameMissing(
        files.location,
        store.operator,
        store.partition,
        store.name,
        found.version,
        s"version ${version.number} cannot be built: the delta $version applies to " +
          s"${describe(found)}, found is ${describe(expected)}"
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

  /** What is done for each frame: its version, its kind, and its size in bytes. */
  type Told = (StateVersion, FrameKind, Long) => Unit

  /** What a base has in the place of rows. */
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
