package org.apache.spark.sql.execution.streaming.state.cleancut.operations

import java.io.ByteArrayInputStream

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.state.cleancut.operations.rows.PartitionOfKey
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored._

import io.cleancut.base.{Clock, StateVersion, StoreId}
import io.cleancut.cutstore.CutArchive
import io.cleancut.objectstore.ObjectKey
import io.cleancut.format.{FrameKind, FrameName, StoreCut}
import io.cleancut.format.cut.SealedFrame
import io.cleancut.format.frame.{BlockScratch, FrameReader, FrameRequest, ReferringBase, Spread}

/**
 * How the state of a query becomes that of another epoch without a row being copied: each store
 * begins with a base that refers to what the stores of the earlier epoch are made of.
 *
 * @param spreads
 *   of an operator's store, by its index, which rows of the one source a partition has; none where
 *   it has all rows of its sources
 */
final private[operations] class StateReference private (
    query: StoredQuery,
    partitions: Int,
    spreads: Map[(Long, Int), Spread]
) {
  import StateReference._

  /**
   * Makes the bases of an act's epoch durable.
   *
   * @param savepoint
   *   in which the earlier epoch is kept, if not by its cut
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OPERATION_REFUSED, what it was to be made of has been swept; CLEANCUT_CUT_CORRUPTED
   */
  def apply(
      place: OfflinePlace,
      target: OfflineTarget,
      run: OfflineRun,
      savepoint: Option[String],
      refused: String => Nothing
  ): Seq[Written] = {
    val archive = place.cuts.get._1
    // The query is owned by now: a sweep that has taken the cut meanwhile has gone before.
    val stored = savepoint
      .fold(archive.cuts.open(query.epoch))(archive.savepoints.open(_))
      .filter(of => query.cut.forall(_.head.token == of.head.token))
      .getOrElse(refused(s"the cut of epoch ${query.epoch} is not there any more"))
    val cut = stored.whole
    val made = for {
      operator <- query.operators
      partition <- operator.partitionsOf(partitions)
      index <- operator.stores.indices
    } yield {
      val store = StoreId(operator.id, partition, operator.stores(index).name)
      val sources = sourcesOf(operator, partition).map { from =>
        val source = store.copy(partition = from)
        cut.of(source).getOrElse(refused(s"the cut of epoch ${query.epoch} has no $source"))
      }
      Made(store, index, newVersion(target.epoch + 1), sources, spreads.get((operator.id, index)))
    }
    run.refer(target, made.map(_.frame), cut.reachedFrom(made.flatMap(_.sources)))
    run.settle(target)
    check(archive, run.settled(target), made)
    if (!OfflinePlace.isInBucket(place.location)) makeDirectories(target, made)
    val hasIds = query.commit.stateUniqueIds.isDefined
    made.map { of =>
      Referring(of.store.operator, of.store.partition, of.index, of.version.id, hasIds)
    }
  }

  private def sourcesOf(operator: StoredOperator, partition: Int): Seq[Int] =
    if (!operator.isSpread) Seq(0)
    else if (partitions >= query.partitions) Seq(partition % query.partitions)
    else partition until query.partitions by partitions

  /** Reads the bases again where they lie. */
  private def check(archive: CutArchive, placed: Seq[StoreCut], made: Seq[Made]): Unit = {
    val places = placed.map(of => of.store -> of.frames).toMap
    val segments = placed
      .flatMap(_.frames.map(_._3.segment))
      .distinct
      .map(name => name -> archive.store.get(ObjectKey(name)))
      .toMap
    for (of <- made) {
      val (kind, version, at) = places(of.store).head
      val request = FrameRequest(archive.pathOf(at.segment), of.store, of.version, kind)
      val bytes = segments(at.segment)
        .map(_.slice(at.offset.toInt, (at.offset + at.length).toInt))
        .getOrElse(throw request.damaged("its segment is missing"))
      val scratch = BlockScratch.borrow()
      try {
        val reader = new FrameReader(request, new ByteArrayInputStream(bytes), scratch)
        val isSame = version == of.version && reader.isReferring &&
          reader.sources() == of.sources && reader.identity.spread == of.spread
        if (!isSame) throw request.damaged("it is not what was written")
      } finally scratch.giveBack()
    }
  }

  /** In which Spark's reader of state looks for the partitions. */
  private def makeDirectories(target: OfflineTarget, made: Seq[Made]): Unit = {
    val files = target.place.files
    made.map(of => s"${of.store.operator}/${of.store.partition}").distinct.foreach { name =>
      files.mkdirs(new Path(target.place.stateRoot, name))
    }
  }
}

private[operations] object StateReference {

  /** None where rows would have to be copied. */
  def of(query: StoredQuery, partitions: Option[Int]): Option[StateReference] = {
    val (before, after) = (query.partitions, partitions.getOrElse(query.partitions))
    if (after == before) Some(new StateReference(query, after, Map.empty))
    else if (before % after == 0) Some(new StateReference(query, after, Map.empty))
    else if (after % before != 0) None
    else {
      val spreads = for {
        operator <- query.operators if operator.isSpread
        index <- operator.stores.indices
      } yield spreadOf(operator, operator.stores(index), after, before)
        .map((operator.id, index) -> _)
      Option.when(spreads.forall(_.isDefined)) {
        new StateReference(query, after, spreads.flatten.toMap)
      }
    }
  }

  private def spreadOf(
      operator: StoredOperator,
      store: StoredStore,
      partitions: Int,
      sourcePartitions: Int
  ): Option[Spread] = {
    val keys = store.families.map { family =>
      PartitionOfKey.columnsOf(operator, store, family).map(family.name -> _)
    }
    Option.when(keys.forall(_.isDefined))(Spread(partitions, sourcePartitions, keys.flatten.toMap))
  }

  private def newVersion(number: Long) =
    StateVersion(number, StateVersion.newId(Clock.System))

  /** All are of one attempt, that of no task. */
  private val Attempt = 0L

  final private case class Made(
      store: StoreId,
      index: Int,
      version: StateVersion,
      sources: Seq[StoreCut],
      spread: Option[Spread]
  ) {
    def frame: SealedFrame = SealedFrame(
      FrameName(store, version, FrameKind.Base),
      Attempt,
      ReferringBase.encode(store, version, sources, spread)
    )
  }

  /** A store that refers to others. */
  final private case class Referring(
      operator: Long,
      partition: Int,
      store: Int,
      version: String,
      hasIds: Boolean
  ) extends Written {
    override def id: Option[String] = Option.when(hasIds)(version)
  }
}
