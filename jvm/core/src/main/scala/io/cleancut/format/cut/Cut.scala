package io.cleancut.format.cut

import scala.collection.mutable

import io.cleancut.base.StoreId
import io.cleancut.format.{Channels, StoreCut}

/** The run that wrote a cut, a segment or an owner object. */
final case class RunId(queryId: Option[String], runId: String, generation: Long)

/**
 * The references of the bases of one version, which an offline operation has created for all
 * stores.
 *
 * @param segments
 *   segments of the sources, and segments that these reference
 */
final case class Referred(version: Long, segments: Seq[String]) {

  /** The epoch whose cut was the first to reference them. */
  def since: Long = version - 1
}

/** A segment with one base, and the epoch whose cut was the first to reference it. */
final case class LateBase(segment: String, since: Long)

/**
 * The manifest of one epoch. See `docs/FORMAT.md`, "Cut".
 *
 * @param token
 *   distinguishes this body from that of another writer of the same epoch
 * @param commit
 *   Spark's entry of the commit log, verbatim
 * @param offsets
 *   Spark's entry of the offset log, verbatim
 * @param timings
 *   milliseconds by phase
 * @param costs
 *   requests and writes of the epoch; None in a cut of a release that did not count them
 * @param channels
 *   reports of the epoch's shuffle inputs, if some could be captured
 * @param courses
 *   how the shuffle inputs reached the barrier; empty in a cut of a release that did not measure it
 * @param output
 *   in a seal: the sink's description of the rows that it has written and not published
 * @param late
 *   bases that were adopted later after the epoch of their segment than the garbage collector's
 *   margin, and that earlier retained cuts may not reference
 * @param isClaim
 *   in a seal: nothing is sealed, and its run begins the epoch again
 * @param paged
 *   references to the chains of its stores. When it is read, `stores` has only the shuffle inputs
 * @param referred
 *   references of bases with which a chain of this cut, or of a retained one, begins
 * @param sinks
 *   published epochs of sinks up to this one
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

  /** The names of the segments that it references, below the root. */
  lazy val segments: Seq[String] = stores.flatMap(_.frames.map(_._3.segment)).distinct

  /**
   * The segments that a garbage collection must not delete if it keeps the cuts from `oldest` on,
   * because that cut may precede all cuts that reference them.
   */
  def retainedSegments(oldest: Long): Set[String] = {
    val bases = late.filter(_.since > oldest).map(_.segment)
    (bases ++ referred.filter(_.since > oldest).flatMap(_.segments)).toSet
  }

  private lazy val byTask: collection.Map[Long, List[StoreCut]] = {
    val byTask = mutable.LongMap.empty[List[StoreCut]]
    stores.foreach { chain =>
      val task = taskOf(chain.store.operator, chain.store.partition)
      byTask(task) = chain :: byTask.getOrElse(task, Nil)
    }
    byTask
  }

  private def taskOf(operator: Long, partition: Int) = operator << 32 | partition

  /** The stores and shuffle inputs of a task, by operator and partition. */
  def ofTask(operator: Long, partition: Int): Seq[StoreCut] =
    byTask.getOrElse(taskOf(operator, partition), Nil)

  def of(store: StoreId): Option[StoreCut] =
    ofTask(store.operator, store.partition).find(_.store == store)

  /** The segments of these chains, and the segments that their bases reference. */
  def reachedFrom(chains: Seq[StoreCut]): Set[String] = {
    val begun = chains.flatMap(_.base).map(_._1.version.number).toSet
    chains.iterator.flatMap(_.frames).map(_._3.segment).toSet ++
      referred.filter(reference => begun(reference.version)).flatMap(_.segments)
  }

  /** The shuffle inputs with in-flight rows. Lazy, because every open of a store requests them. */
  lazy val inFlight: Seq[StoreCut] = stores.filter(store => Channels.isChannel(store.store))

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_TOO_LARGE if readers would refuse it
   */
  def toBytes: Array[Byte] = CutCodec.encode(this, CheckedBody.MaxRawBytes)
}

object Cut {

  /**
   * Parses the cut of an epoch.
   *
   * @param path
   *   path for messages
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_CORRUPTED, CLEANCUT_FORMAT_UNKNOWN
   */
  def parse(path: String, epoch: Long, bytes: Array[Byte]): Cut =
    CutCodec.parse(path, Some(epoch), bytes)

  /** Parses a cut of any epoch, for example a savepoint. */
  def parse(path: String, bytes: Array[Byte]): Cut = CutCodec.parse(path, None, bytes)
}
