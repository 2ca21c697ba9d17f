package org.apache.spark.sql.execution.streaming.state.cleancut.offline

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing._
import org.apache.spark.sql.internal.SQLConf

import io.cleancut.Clock
import io.cleancut.error.Errors

/**
 * The first state of a query that has not run: a checkpoint whose first epoch took no input, and
 * has the rows that are given. The query goes on after it, and reads its sources from the
 * beginning.
 *
 * Its epoch is the second one, so that a query which is started while it is made stops with an
 * error, and does not begin anew: that epoch has been begun, and there is no state before it.
 *
 * @param rows
 *   at most once for each family; all others are empty
 * @param isWithCuts
 *   whether cuts are to commit its epochs
 * @param fileSink
 *   as of [[OfflineAct]]
 */
final private[offline] class Bootstrap(
    session: SparkSession,
    location: String,
    query: PlannedStart,
    rows: Seq[OfflineEdit],
    isWithCuts: Boolean,
    fileSink: Option[String]
) {
  import Bootstrap._

  private val place = OfflinePlace.to(session, location, isWithCuts)

  private val recorded = {
    val own = place.session
    // As a run does, which keeps this number of partitions whatever is set later.
    val partitions = own.sessionState.conf.numShufflePartitions
    val key = SQLConf.STATEFUL_SHUFFLE_PARTITIONS_INTERNAL.key
    own.sessionState.conf.setConfString(key, partitions.toString)
    OffsetSeqMetadata(batchWatermarkMs = 0L, batchTimestampMs = Clock.System.wallMs(), own.conf)
  }

  def plan(): OfflinePlan = {
    check()
    val planned = described(query.operators(session, recorded, conf))
    val of = stored(planned)
    edits(of)
    planOf(of)
  }

  def run(): OfflinePlan = {
    check()
    // Before anything is there, whatever there is to refuse.
    edits(stored(described(query.operators(session, recorded, conf)))).foreach { case (of, df) =>
      of.checkRows(df, refused)
    }
    val target = OfflineTarget(place, last = -1L, Epoch, isNew = true)
    val written = begin(target)
    OfflineRun.using(target, Act, OfflineAct.newId()) { run =>
      run(s"cleancut: $Act ${place.location}") {
        run.replace(target, written, None, place)
        val stores = place.stores(conf)
        val rewrite = new StateRewrite(place.session, written, target, stores, stores, run)
        val filled = rewrite.fill(edits(written).map { case (of, df) =>
          StateRewrite.Edited(of, of.internal(df))
        })
        OfflineEpoch.commit(target, written, run, Act, Map.empty, filled)
        fileSink.foreach(new SparkFileSink(place.session, _).follow(-1L, Epoch))
        val counts = filled.groupMapReduce(_.operator)(_.sum.rows)(_ + _)
        val plan = planOf(written)
        plan.copy(operators = plan.operators.map(of => of.copy(rows = counts.get(of.id))))
      }
    }
  }

  /** What stands before the state: an entry of the epoch, the query's id, and its descriptions. */
  private def begin(target: OfflineTarget): StoredQuery = {
    place.files.createCheckpointDirectory()
    val nothing = stored(Nil)
    OfflineEpoch.takeBack(target, nothing)
    // Another query may have been begun here, and killed.
    place.files.delete(new Path(place.stateRoot))
    OfflineEpoch.announce(target, nothing, Act, Map.empty)
    // Of descriptions Spark counts only those whose epochs have an entry.
    OfflineEpoch.precede(target, nothing, Act, Map.empty)
    NewCheckpoint.identify(place, OfflineAct.newId().toString)
    query.run(place, epoch = 0L, recorded, conf)
    stored(StoredQuery.operators(place.location, Epoch, recorded, place.hadoopConf))
  }

  private def check(): Unit = {
    if (!query.isStreaming) refused("the DataFrame is not a streaming one")
    if (!place.isGated)
      refused("its epochs are to be committed by cuts, and this session was not set up")
    val provider = stored(Nil).providerClass
    if (provider == OfflineAct.HdfsBacked) {
      refused(
        "the session has the HDFS-backed provider, which cannot make a version of its own choosing"
      )
    }
    if (place.isWithCuts && provider != OfflineAct.Cleancut)
      refused(s"state of $provider cannot be committed by cuts, as in a bucket")
    NewCheckpoint.checkFree(place, refused)
  }

  private def described(operators: => Seq[StoredOperator]): Seq[StoredOperator] = {
    val found =
      try operators
      catch { case NonFatal(e) => refused(s"Spark does not plan the query: ${e.getMessage}") }
    if (found.isEmpty) refused("the query has no stateful operator")
    found
  }

  private def edits(of: StoredQuery): Seq[(EditableRows, DataFrame)] = {
    rows.groupBy(_.of).collectFirst { case (family, all) if all.size > 1 => family }.foreach { of =>
      refused(s"the rows of $of are given twice")
    }
    rows.map { one =>
      val own = EditableRows.of(of, one.of, refused)
      own.check(one.rows, refused)
      own -> one.rows
    }
  }

  private def stored(operators: Seq[StoredOperator]): StoredQuery = {
    val offsets = OffsetSeq(Seq.fill(query.sources)(None), Some(recorded))
    val ids = conf.getConf(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION) >= WithIds
    val commit =
      if (ids) CommitMetadataV2(0L, Some(Map.empty[Long, Array[Array[String]]]))
      else CommitMetadata()
    StoredQuery(
      place.location,
      Epoch,
      Epoch,
      Epoch,
      offsets,
      commit,
      operators,
      isHalfDone = false,
      cut = None
    )
  }

  private def conf: SQLConf = place.session.sessionState.conf.clone()

  private def planOf(of: StoredQuery) = OfflinePlan(
    Act,
    place.location,
    into = None,
    Epoch,
    source = -1L,
    last = -1L,
    of.providerClass,
    of.providerClass,
    of.partitions,
    of.partitions,
    of.operators.map { one =>
      val count = one.partitions.size
      OfflinePlan.Operator(one.id, one.name, count, count, one.stores.size, rows = None)
    },
    notes = Nil
  )

  private def refused(reason: String): Nothing =
    throw Errors.offlineRefused(Act, place.location, reason)
}

object Bootstrap {
  private val Act = "bootstrap"
  private val Epoch = 1L
  private val WithIds = 2

  /**
   * @param mode
   *   the output mode, in Spark's words
   * @param isApplied
   *   whether it is done, and not only planned
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OFFLINE_REFUSED, CLEANCUT_REWRITE_DIFFERS
   */
  def apply(
      session: SparkSession,
      location: String,
      query: DataFrame,
      mode: String,
      rows: Seq[OfflineEdit],
      isWithCuts: Boolean,
      fileSink: Option[String],
      isApplied: Boolean
  ): OfflinePlan = {
    val planned = new PlannedStart(query, mode)
    val of = new Bootstrap(session, location, planned, rows, isWithCuts, fileSink)
    if (isApplied) of.run() else of.plan()
  }
}
