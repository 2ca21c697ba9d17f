package io.cleancut.format.cut

import scala.collection.mutable

import io.cleancut.base.StoreId
import io.cleancut.format.{Channels, StoreCut}

/** Whose a cut, a segment or an owner's note is. */
final case class RunId(queryId: Option[String], runId: String, generation: Long)

/**
 * What bases of a version refer to, that an act has made of all stores.
 *
 * @param segments
 *   that their sources lie in, and those that these refer to in turn
 */
final case class Referred(version: Long, segments: Seq[String]) {

  /** The epoch whose cut was the first to name them. */
  def since: Long = version - 1
}

/** A segment of one base, and the epoch whose cut was the first to name it. */
final case class LateBase(segment: String, since: Long)

/**
 * The manifest of one epoch. See `docs/FORMAT.md`, "Cut".
 *
 * @param token
 *   tells this body from that of another writer of the same epoch
 * @param commit
 *   Spark's own entry of the commit log, verbatim
 * @param offsets
 *   Spark's own entry of the offset log, verbatim
 * @param timings
 *   milliseconds by phase
 * @param costs
 *   what the epoch asked of the store; None in a cut of a release that did not count it
 * @param channels
 *   what the epoch's tasks made of their channels, where some could be captured
 * @param courses
 *   how these came to the barrier; not in a cut of a release that did not measure it
 * @param output
 *   of a seal: by what the sink knows the rows that it has written and not shown yet
 * @param late
 *   bases that were adopted longer after the epoch of their segment than a sweep reckons with, and
 *   that cuts may still name which this one no longer knows
 * @param isClaim
 *   of a seal: nothing is sealed, and its run has the epoch begin anew
 * @param paged
 *   where the chains of its stores are. It has only the channels in `stores` when it is read
 * @param referred
 *   what bases refer to that this cut, or one that is still kept, begins a chain with
 * @param sinks
 *   the epochs that sinks have published up to this one
 */
final case class Cut(
    epoch: Long,
    run: RunId,
    token: String,
    writtenMs: Long,
    commit: String,
    offsets: String,
    stores: Seq[StoreCut],
    timings: Map[String, Long],
    costs: Option[EpochCosts] = None,
    channels: Seq[ChannelReport] = Nil,
    courses: Map[StoreId, ChannelCourse] = Map.empty,
    output: Option[String] = None,
    late: Seq[LateBase] = Nil,
    isClaim: Boolean = false,
    paged: PagedChains = PagedChains.Empty,
    referred: Seq[Referred] = Nil,
    sinks: SinkEpochs = SinkEpochs.Empty
) {

  /** The names of the segments that it needs, below the root. */
  lazy val segments: Seq[String] = stores.flatMap(_.frames.map(_._3.segment)).distinct

  /**
   * The segments that a sweep leaves alone which keeps the cuts from `oldest` on, since that one
   * may be from before all cuts that name them.
   */
  def spared(oldest: Long): Set[String] = {
    val bases = late.filter(_.since > oldest).map(_.segment)
    (bases ++ referred.filter(_.since > oldest).flatMap(_.segments)).toSet
  }

  private lazy val byTask: collection.Map[Long, List[StoreCut]] = {
    val found = mutable.LongMap.empty[List[StoreCut]]
    stores.foreach { of =>
      val task = taskOf(of.store.operator, of.store.partition)
      found(task) = of :: found.getOrElse(task, Nil)
    }
    found
  }

  private def taskOf(operator: Long, partition: Int) = operator << 32 | partition

  /** What it has of the task of an operator and partition: its stores, and its channels. */
  def ofTask(operator: Long, partition: Int): Seq[StoreCut] =
    byTask.getOrElse(taskOf(operator, partition), Nil)

  def of(store: StoreId): Option[StoreCut] =
    ofTask(store.operator, store.partition).find(_.store == store)

  /** The segments that these chains of it lie in, and those that their bases refer to in turn. */
  def reachedFrom(chains: Seq[StoreCut]): Set[String] = {
    val begun = chains.flatMap(_.base).map(_._1.version.number).toSet
    chains.iterator.flatMap(_.frames).map(_._3.segment).toSet ++
      referred.filter(of => begun(of.version)).flatMap(_.segments)
  }

  /** The channels that hold rows. They are asked for with every store that is opened. */
  lazy val inFlight: Seq[StoreCut] = stores.filter(of => Channels.isChannel(of.store))

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_TOO_LARGE, no reader would take it
   */
  def toBytes: Array[Byte] = CutCodec.encode(this, CheckedBody.MaxRawBytes)
}

object Cut {

  /**
   * The cut that must be of this epoch.
   *
   * @param path
   *   for messages
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_CORRUPTED, CLEANCUT_FORMAT_UNKNOWN
   */
  def parse(path: String, epoch: Long, bytes: Array[Byte]): Cut =
    CutCodec.parse(path, Some(epoch), bytes)

  /** Of whatever epoch, as of a savepoint. */
  def parse(path: String, bytes: Array[Byte]): Cut = CutCodec.parse(path, None, bytes)
}
