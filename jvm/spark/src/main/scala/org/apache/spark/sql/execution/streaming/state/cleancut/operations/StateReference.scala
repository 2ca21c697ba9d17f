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
 * Turns the state of a query into the state of another epoch without copying rows: each store
 * begins with a base that references the frames of the earlier epoch's stores.
 *
 * @param spreads
 *   filter of an operator's store, by store index, if a partition has only some rows of its
 *   sources; None if it has all of them
 */
final private[operations] class StateReference private (
    query: StoredQuery,
    partitions: Int,
    spreads: Map[(Long, Int), Spread]
) {
  import StateReference._

  /**
   * Makes the bases of the operation's epoch durable.
   *
   * @param savepoint
   *   savepoint that keeps the earlier epoch, if its cut does not
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OPERATION_REFUSED if referenced objects were deleted; CLEANCUT_CUT_CORRUPTED
   */
  def apply(
      place: OfflinePlace,
      target: OfflineTarget,
      run: OfflineRun,
      savepoint: Option[String],
      refused: String => Nothing
  ): Seq[Written] = {
    val archive = place.cuts.get._1
    // The operation owns the query now: a garbage collection that deleted the cut has ended.
    val stored = savepoint
      .fold(archive.cuts.open(query.epoch))(archive.savepoints.open(_))
      .filter(stored => query.cut.forall(_.head.token == stored.head.token))
      .getOrElse(refused(s"the cut of epoch ${query.epoch} no longer exists"))
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
    made.map { base =>
      ReferencingStore(
        base.store.operator,
        base.store.partition,
        base.index,
        base.version.id,
        hasIds
      )
    }
  }

  private def sourcesOf(operator: StoredOperator, partition: Int): Seq[Int] =
    if (!operator.isSpread) Seq(0)
    else {
      // A key is in partitions with the same remainder before and after.
      val shared = sharedBy(query.partitions, partitions)
      partition % shared until query.partitions by shared
    }

  /** Reads the bases back from their segments. */
  private def check(archive: CutArchive, placed: Seq[StoreCut], made: Seq[Made]): Unit = {
    val places = placed.map(chain => chain.store -> chain.frames).toMap
    val segments = placed
      .flatMap(_.frames.map(_._3.segment))
      .distinct
      .map(name => name -> archive.store.get(ObjectKey(name)))
      .toMap
    for (base <- made) {
      val (kind, version, at) = places(base.store).head
      val request = FrameRequest(archive.pathOf(at.segment), base.store, base.version, kind)
      val bytes = segments(at.segment)
        .map(_.slice(at.offset.toInt, (at.offset + at.length).toInt))
        .getOrElse(throw request.damaged("the segment is missing"))
      val scratch = BlockScratch.borrow()
      try {
        val reader = new FrameReader(request, new ByteArrayInputStream(bytes), scratch)
        val isSame = version == base.version && reader.isReferring &&
          reader.sources() == base.sources && reader.identity.spread == base.spread
        if (!isSame) throw request.damaged("the frame differs from the one that was written")
      } finally scratch.giveBack()
    }
  }

  /** Creates the directories in which Spark's state reader looks for partitions. */
  private def makeDirectories(target: OfflineTarget, made: Seq[Made]): Unit = {
    val files = target.place.files
    made.map(base => s"${base.store.operator}/${base.store.partition}").distinct.foreach { name =>
      files.mkdirs(new Path(target.place.stateRoot, name))
    }
  }
}

private[operations] object StateReference {

  /**
   * Limit of how often the rows of the state are read until its stores have their own snapshots, if
   * the partitions are neither multiplied nor divided. A task then reads up to this many times what
   * it keeps. With multiples and divisors a task reads no more than the sources of its store.
   */
  private val MaxReads = 8L

  /**
   * None if rows have to be copied.
   *
   * @param readsBefore
   *   how often the rows of the state are read before the operation, see [[StateReads]]
   */
  def of(
      query: StoredQuery,
      partitions: Option[Int],
      readsBefore: => Long
  ): Option[StateReference] = {
    val (before, after) = (query.partitions, partitions.getOrElse(query.partitions))
    val shared = sharedBy(before, after)
    if (after == shared) Some(new StateReference(query, after, Map.empty))
    else if (before != shared && after / shared > MaxReads / readsBefore) None
    else {
      val spreads = for {
        operator <- query.operators if operator.isSpread
        index <- operator.stores.indices
      } yield spreadOf(operator, operator.stores(index), after, shared)
        .map((operator.id, index) -> _)
      Option.when(spreads.forall(_.isDefined)) {
        new StateReference(query, after, spreads.flatten.toMap)
      }
    }
  }

  /** The greatest common divisor of two numbers of partitions. */
  private def sharedBy(before: Int, after: Int): Int = BigInt(before).gcd(after).toInt

  private def spreadOf(
      operator: StoredOperator,
      store: StoredStore,
      partitions: Int,
      sharedPartitions: Int
  ): Option[Spread] = {
    val keys = store.families.map { family =>
      PartitionOfKey.columnsOf(operator, store, family).map(family.name -> _)
    }
    Option.when(keys.forall(_.isDefined))(Spread(partitions, sharedPartitions, keys.flatten.toMap))
  }

  private def newVersion(number: Long) =
    StateVersion(number, StateVersion.newId(Clock.System))

  /** The attempt of all bases; it is not a task attempt. */
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

  /** A store that references other stores. */
  final private case class ReferencingStore(
      operator: Long,
      partition: Int,
      store: Int,
      version: String,
      hasIds: Boolean
  ) extends Written {
    override def id: Option[String] = Option.when(hasIds)(version)
  }
}
