package io.cleancut.objectstore.readahead

import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.util.{Failure, Success, Try}

import org.slf4j.LoggerFactory

import io.cleancut.base.{Clock, ParallelReads}
import io.cleancut.objectstore.{Listed, ObjectInfo, ObjectKey, ObjectPrefix, ObjectStore}

/**
 * The objects that one start of a query is about to read, requested concurrently: complete lists
 * below some prefixes, and the bytes of some objects in them. Later reads of the start are answered
 * from here as if they had been made at the time of [[fill]].
 *
 * So a start makes the same decisions as one that makes all its reads at this time, provided that
 * [[fill]] is called after the step that these reads must follow, such as the acquisition of
 * ownership. A name that this process writes afterwards, and each list that contains it, is unknown
 * from then on. Results are for one start, and only while they are young.
 *
 * A request that fails has no effect: the later read makes its request itself, and reports the
 * error. Thread-safe; makes no request while it holds its lock.
 *
 * @param serves
 *   whether the calling thread belongs to the start
 */
final class ReadAhead(
    store: ObjectStore,
    reads: ParallelReads,
    clock: Clock,
    serves: () => Boolean
) {
  import ReadAhead._

  // All guarded by this.
  private var known = Option.empty[Known]
  private val written = mutable.Set.empty[String]

  /**
   * Requests the lists of a plan concurrently, and then the bytes of the objects that it selects.
   */
  def fill(plan: ReadPlan): Unit = {
    synchronized {
      known = None
      written.clear()
    }
    val beganNs = clock.monotonicNs()
    val levels = plan.levels.map(prefix => () => level(prefix))
    val below = plan.below.map(prefix => () => list(prefix))
    val lists = succeeded(reads.all(levels ++ below)).flatten
    val infos = lists.flatMap(_.infos)
    val wanted = withinLimits(plan.select(infos))
    val bodies = succeeded(reads.all(wanted.map { info => () =>
      store.get(info.key).map(info.key -> _)
    })).flatten
    synchronized {
      known = Some(Known(beganNs, lists, infos.map(i => i.key -> i).toMap, bodies.toMap))
    }
  }

  /** Forgets everything. */
  def end(): Unit = synchronized { known = None }

  /** Whether it knows nothing any more, because its start is over or takes too long. */
  def isOver: Boolean = synchronized(!known.exists(isYoung))

  /** An object is about to be written or deleted. */
  def write(key: ObjectKey): Unit = synchronized {
    written += key.name
    ()
  }

  /** The metadata of an object; the inner option is empty if it does not exist. */
  def head(key: ObjectKey): Option[Option[ObjectInfo]] =
    current.filter(_.covers(key)).map(_.infos.get(key))

  /** The bytes of an object; the inner option is empty if it does not exist. */
  def get(key: ObjectKey): Option[Option[Array[Byte]]] = head(key).flatMap {
    case None    => Some(None)
    case Some(_) => current.flatMap(_.bodies.get(key)).map(Some(_))
  }

  /** All objects below a prefix. */
  def below(prefix: ObjectPrefix): Option[Seq[ObjectInfo]] =
    current.filter(_ => !isWrittenBelow(prefix)).flatMap(_.below(prefix))

  /** The children of a prefix. */
  def children(prefix: ObjectPrefix): Option[Seq[Listed]] =
    current.filter(_ => !isWrittenBelow(prefix)).flatMap(_.children(prefix))

  private def current: Option[Known] =
    if (!serves()) None
    else
      synchronized {
        known = known.filter(isYoung)
        known.map(one => one.copy(written = written.toSet))
      }

  private def isYoung(one: Known) = clock.monotonicNs() - one.beganNs < MaxAgeNs

  private def withinLimits(infos: Seq[ObjectInfo]): Seq[ObjectInfo] = {
    val small = infos.filter(_.sizeBytes <= MaxObjectBytes).take(MaxObjects)
    val sums = small.map(_.sizeBytes).scanLeft(0L)(_ + _).drop(1)
    small.take(sums.takeWhile(_ <= MaxBytes).size)
  }

  private def isWrittenBelow(prefix: ObjectPrefix): Boolean =
    synchronized(written.exists(_.startsWith(prefix.name)))

  /** None if the list is too long. */
  private def list(prefix: ObjectPrefix): Option[KnownList] = {
    val infos = store.list(prefix).take(MaxListed + 1).toVector
    Option.when(infos.size <= MaxListed)(KnownList.Below(prefix, infos))
  }

  private def level(prefix: ObjectPrefix): Option[KnownList] = {
    val entries = store.listLevel(prefix).take(MaxListed + 1).toVector
    Option.when(entries.size <= MaxListed)(KnownList.Level(prefix, entries))
  }

  private def succeeded[A](results: Seq[Try[A]]): Seq[A] = results.flatMap {
    case Success(result) => Some(result)
    case Failure(e)      =>
      logger.info(s"A read ahead in ${store.location} failed and is made on demand: $e")
      None
  }
}

/**
 * The reads to make ahead.
 *
 * @param levels
 *   prefixes whose children are listed
 * @param below
 *   prefixes below which all objects are listed
 * @param select
 *   the objects to read, from those in the lists
 */
final case class ReadPlan(
    levels: Seq[ObjectPrefix],
    below: Seq[ObjectPrefix],
    select: Seq[ObjectInfo] => Seq[ObjectInfo]
)

object ReadAhead {
  private val logger = LoggerFactory.getLogger(classOf[ReadAhead])

  /** Limits of one start; what exceeds them is read on demand. */
  private val MaxListed = 1000
  private val MaxObjects = 64
  private val MaxObjectBytes = 256L << 10
  private val MaxBytes = 2L << 20

  /** A start that takes longer, for example because it waits for input, reads again. */
  private val MaxAgeNs = TimeUnit.SECONDS.toNanos(30)

  sealed private trait KnownList {
    def infos: Seq[ObjectInfo]
  }

  private object KnownList {
    final case class Below(prefix: ObjectPrefix, infos: Seq[ObjectInfo]) extends KnownList

    final case class Level(prefix: ObjectPrefix, entries: Seq[Listed]) extends KnownList {
      override def infos: Seq[ObjectInfo] = entries.collect { case Listed.Here(info) => info }
    }
  }

  /** An immutable state of a [[ReadAhead]]. */
  final private case class Known(
      beganNs: Long,
      lists: Seq[KnownList],
      infos: Map[ObjectKey, ObjectInfo],
      bodies: Map[ObjectKey, Array[Byte]],
      written: Set[String] = Set.empty
  ) {
    def covers(key: ObjectKey): Boolean = !written(key.name) && lists.exists {
      case KnownList.Below(prefix, _) => key.name.startsWith(prefix.name)
      case KnownList.Level(prefix, _) =>
        key.name.startsWith(prefix.name) && key.name.indexOf('/', prefix.name.length) < 0
    }

    def below(prefix: ObjectPrefix): Option[Seq[ObjectInfo]] = lists.collectFirst {
      case KnownList.Below(listed, infos) if prefix.name.startsWith(listed.name) =>
        infos.filter(_.key.name.startsWith(prefix.name))
    }

    def children(prefix: ObjectPrefix): Option[Seq[Listed]] = {
      val level = lists.collectFirst { case KnownList.Level(`prefix`, entries) => entries }
      level.orElse(below(prefix).map(levelOf(prefix, _)))
    }

    private def levelOf(prefix: ObjectPrefix, infos: Seq[ObjectInfo]): Seq[Listed] = {
      def slash(info: ObjectInfo) = info.key.name.indexOf('/', prefix.name.length)
      val (here, deeper) = infos.partition(slash(_) < 0)
      val names = deeper.map(info => info.key.name.take(slash(info) + 1)).distinct
      here.map(Listed.Here(_)) ++ names.map(name => Listed.Below(ObjectPrefix(name)))
    }
  }
}
