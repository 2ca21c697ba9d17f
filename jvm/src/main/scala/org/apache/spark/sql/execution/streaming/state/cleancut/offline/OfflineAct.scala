package org.apache.spark.sql.execution.streaming.state.cleancut.offline

import java.util.UUID

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.StateStoreConf
import org.apache.spark.sql.internal.SQLConf

import io.cleancut.{CleancutCheckpointFileManager, CleancutStateStoreProvider, Clock}
import io.cleancut.error.Errors
import io.cleancut.files.CutsAtRest

/**
 * Something that is done to a stopped query's checkpoint, by an epoch of its own.
 *
 * @param name
 *   for messages
 * @param providerClass
 *   whose the state is to be; that whose it is where none is given
 * @param partitions
 *   over how many it is to be spread; those that there are where none is given
 * @param source
 *   of which of its states
 * @param last
 *   the last epoch as it was planned, where the query must not have gone on since
 * @param fileSink
 *   what Spark's own sink of files writes to, where that is the query's sink
 */
final case class OfflineAct(
    name: String,
    providerClass: Option[String] = None,
    partitions: Option[Int] = None,
    source: OfflineSource = OfflineSource.Last,
    last: Option[Long] = None,
    fileSink: Option[String] = None
) {
  import OfflineAct._

  /**
   * What it would do.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CHECKPOINT_NOT_FOUND, CLEANCUT_OFFLINE_REFUSED
   */
  def plan(session: SparkSession, location: String): OfflinePlan =
    behindSink(session, location).fold(planOf(checked(session, location)))(_._1)

  /**
   * Does it. Killed at any moment it leaves the checkpoint as it was, or as it is to be; in between
   * there is one moment at which a query cannot start, until the act is begun again. So it is to be
   * where it was committed and a sink of files has not heard of it; it then does that alone.
   *
   * @return
   *   what was done, with the rows of each operator
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CHECKPOINT_NOT_FOUND, CLEANCUT_OFFLINE_REFUSED, CLEANCUT_REWRITE_DIFFERS
   */
  def run(session: SparkSession, location: String): OfflinePlan =
    behindSink(session, location).fold(done(session, location)) { case (plan, sink) =>
      sink.follow(plan.source, plan.epoch)
      plan
    }

  /** The act that was killed when it was committed, and its sink had not heard of it yet. */
  private def behindSink(
      session: SparkSession,
      location: String
  ): Option[(OfflinePlan, SparkFileSink)] = for {
    output <- fileSink
    query = StoredQuery.read(session, location, name)
    source <- OfflineEpoch.sourceOf(query.offsets)
    sink = new SparkFileSink(session, output)
    if running(session, query.location).isEmpty && sink.lacks(query.last)
  } yield {
    val note = s"Epoch ${query.last} is committed; what is left is to tell the sink of it."
    (planOf(query).copy(epoch = query.last, source = source, notes = Seq(note)), sink)
  }

  private def done(session: SparkSession, location: String): OfflinePlan = {
    val query = checked(session, location)
    val written = OfflineRun.using(session, query, name, newRunId()) { run =>
      run(s"cleancut: $name ${query.location}") {
        OfflineEpoch.takeBack(session, query)
        run.replace(query, partitions)
        val before = query.confOf(session)
        val after = before.clone()
        settings.foreach { case (key, value) => after.setConfString(key, value) }
        val rewrite = new StateRewrite(
          session,
          query,
          StoresAt(query.stateRoot, StateStoreConf(before)),
          StoresAt(query.stateRoot, StateStoreConf(after)),
          run
        )
        val written = rewrite(partitions)
        OfflineEpoch.commit(session, query, run, name, settings, written)
        // It must not have an entry before that, or it would pass over an epoch of the query's.
        fileSink.foreach(new SparkFileSink(session, _).follow(query.epoch, query.next))
        written
      }
    }
    val rows = written.groupMapReduce(_.operator)(_.sum.rows)(_ + _)
    val plan = planOf(query)
    plan.copy(operators = plan.operators.map(of => of.copy(rows = Some(rows.getOrElse(of.id, 0L)))))
  }

  private def settings: Map[String, String] =
    providerClass.map(SQLConf.STATE_STORE_PROVIDER_CLASS.key -> _).toMap ++
      partitions.map(SQLConf.SHUFFLE_PARTITIONS.key -> _.toString)

  private def planOf(query: StoredQuery) = OfflinePlan(
    name,
    query.location,
    query.next,
    query.epoch,
    query.last,
    query.providerClass,
    providerClass.getOrElse(query.providerClass),
    query.partitions,
    partitions.getOrElse(query.partitions),
    query.operators.map { of =>
      val count = partitions.fold(of.partitions)(of.partitionsOf).size
      OfflinePlan.Operator(of.id, of.name, of.partitions.size, count, of.stores.size, rows = None)
    },
    if (query.isBack) RollbackNotes.of(query) else Nil
  )

  private def checked(session: SparkSession, location: String): StoredQuery = {
    def refused(at: String, reason: String) = throw Errors.offlineRefused(name, at, reason)
    partitions.filter(_ < 1).foreach { n =>
      refused(location, s"$n is no number of partitions; it takes at least one")
    }
    val query = StoredQuery.read(session, location, name, source)
    running(session, query.location).foreach { run =>
      refused(query.location, s"the query runs in this application (run $run); stop it first")
    }
    last.filter(_ != query.last).foreach { planned =>
      refused(
        query.location,
        s"its last epoch was $planned when this was planned, and is ${query.last} now"
      )
    }
    for (sink <- fileSink; why <- new SparkFileSink(session, sink).problem(query.epoch))
      refused(query.location, why)
    if (hasCuts(session, query.location)) {
      if (providerClass.nonEmpty) {
        refused(query.location, "its epochs are committed by cuts, which only Cleancut makes")
      }
      if (!isGated(session)) {
        refused(query.location, "its epochs are committed by cuts, and this session was not set up")
      }
    }
    providerClass.foreach { to =>
      if (to == query.providerClass) refused(query.location, s"its state is that of $to already")
      if (to != Cleancut && query.providerClass != Cleancut) {
        refused(query.location, s"its state is that of ${query.providerClass}, and not Cleancut's")
      }
    }
    partitions.filter(_ == query.partitions).foreach { n =>
      refused(query.location, s"it has $n partitions already")
    }
    if (providerClass.getOrElse(query.providerClass) == HdfsBacked) {
      refused(
        query.location,
        "its state is that of the HDFS-backed provider, which cannot make a version of its own " +
          "choosing; adopt it first"
      )
    }
    query
  }

  private def hasCuts(session: SparkSession, location: String): Boolean =
    CutsAtRest
      .parts(location, session.sessionState.newHadoopConf())
      .exists(_._1.last().isDefined)

  /** Whether an entry of the commit log comes behind a cut. */
  private def isGated(session: SparkSession): Boolean =
    session.sessionState.conf.getConfString(FileManagerKey, "") ==
      classOf[CleancutCheckpointFileManager].getName

  /** In whichever session of the application it was started. */
  private def running(session: SparkSession, location: String): Option[UUID] =
    session.sharedState.activeStreamingQueries.values.asScala
      .collectFirst {
        case of if new Path(of.resolvedCheckpointRoot).toString == location => of.runId
      }
}

object OfflineAct {

  /** No running query has it. */
  private def newRunId(): UUID = UUID.nameUUIDFromBytes(Clock.System.randomBytes(16))

  private val Cleancut = classOf[CleancutStateStoreProvider].getName
  private val HdfsBacked =
    "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
  private val FileManagerKey = SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key

  /** Makes the state Cleancut's. */
  val Adopt: OfflineAct = OfflineAct("adopt", providerClass = Some(Cleancut))

  /** Makes it that of Spark's RocksDB provider, the one of its own that takes every operator. */
  val Release: OfflineAct = OfflineAct(
    "release",
    providerClass = Some("org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
  )

  def rescale(partitions: Int): OfflineAct =
    OfflineAct("rescale", partitions = Some(partitions))

  /** Goes on from an earlier state. */
  def rollback(to: OfflineSource, last: Option[Long] = None): OfflineAct =
    OfflineAct("rollback", source = to, last = last)
}

/**
 * What an act does, or has done.
 *
 * @param epoch
 *   that does it
 * @param source
 *   the epoch whose result it has
 * @param last
 *   the last epoch before it
 * @param partitionsBefore
 *   of what is spread by its keys
 * @param notes
 *   what else one has to know before it is done
 */
final case class OfflinePlan(
    act: String,
    location: String,
    epoch: Long,
    source: Long,
    last: Long,
    providerBefore: String,
    provider: String,
    partitionsBefore: Int,
    partitions: Int,
    operators: Seq[OfflinePlan.Operator],
    notes: Seq[String]
)

object OfflinePlan {

  /**
   * @param stores
   *   of each partition
   * @param rows
   *   that were written, once they are
   */
  final case class Operator(
      id: Long,
      name: String,
      partitionsBefore: Int,
      partitions: Int,
      stores: Int,
      rows: Option[Long]
  )
}
