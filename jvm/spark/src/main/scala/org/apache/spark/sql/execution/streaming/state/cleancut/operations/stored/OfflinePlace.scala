package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

import java.util.UUID

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.StateStoreConf
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.{
  CutsAtRest,
  SharedStores
}
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.BuiltFor
import org.apache.spark.sql.internal.SQLConf

import io.cleancut.base.{ClassNames, Clock}
import io.cleancut.conf.Keys
import io.cleancut.coordinator.SparkLogs
import io.cleancut.cutstore.CutArchive
import io.cleancut.error.{CleancutException, Errors}
import io.cleancut.objectstore.BucketPath

/**
 * A checkpoint location that an act reads or writes.
 *
 * @param location
 *   as Spark resolves it
 * @param isWithCuts
 *   whether epochs are committed by cuts there
 * @param said
 *   how it is reached, where that is not as the session has it
 */
final private[operations] class OfflinePlace private (
    outer: SparkSession,
    val location: String,
    val isWithCuts: Boolean,
    said: Option[PlaceAccess] = None
) {

  /** What is set of cuts in the session that was given is for the queries that it starts. */
  val session: SparkSession = {
    val own = outer.cloneSession()
    own.sessionState.conf.setConfString(Keys.Cuts.name, isWithCuts.toString)
    said.foreach(_.setIn(own.sessionState.conf))
    own
  }

  val access: PlaceAccess = PlaceAccess.of(session.sessionState.conf)

  def hadoopConf: Configuration = session.sessionState.newHadoopConf()

  def stateRoot: String = StoredQuery.stateRoot(location)

  def logs: EpochLogs = new EpochLogs(session, location, isNew = false)

  /** The same of a checkpoint that is to be made. */
  def newLogs: EpochLogs = new EpochLogs(session, location, isNew = true)

  def files: CheckpointFileManager = CheckpointFileManager.create(new Path(location), hadoopConf)

  /** None where there are no cuts. */
  def cuts: Option[(CutArchive, SparkLogs)] =
    if (isWithCuts) CutsAtRest.parts(location, hadoopConf) else None

  /**
   * Keeps the cut of an epoch, where there are cuts: a query that runs meanwhile sweeps what it
   * does not need any more.
   */
  def pinned[A](epoch: Long)(body: Option[String] => A): A = cuts match {
    case None               => body(None)
    case Some((archive, _)) =>
      val name = s"copy-${OfflinePlace.newId()}"
      // Without the right to write, the cut is read as it is, and a sweep ends the operation.
      val isPinned =
        try {
          archive.savepoints.pin(name, epoch)
          true
        } catch { case WriteDenied(_) => false }
      try body(Option.when(isPinned)(name))
      finally
        if (isPinned) {
          archive.savepoints.unpin(name)
          ()
        }
  }

  /** Its stores, under the settings of a query. */
  def stores(conf: SQLConf, savepoint: Option[String] = None): StoresAt = {
    conf.setConfString(Keys.Cuts.name, isWithCuts.toString)
    access.setIn(conf)
    StoresAt(stateRoot, StateStoreConf(conf), savepoint, access)
  }

  /** Whether an entry of its commit log comes behind a cut, where there are to be some. */
  def isGated: Boolean = !isWithCuts ||
    session.sessionState.conf.getConfString(OfflinePlace.FileManagerKey, "") ==
    ClassNames.CheckpointFileManager
}

private[operations] object OfflinePlace {
  private[operations] val HdfsBacked =
    "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"

  /** No query and no run has it. */
  private[operations] def newId(): UUID = UUID.nameUUIDFromBytes(Clock.System.randomBytes(16))

  private val FileManagerKey = SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key

  /**
   * One that is there, as it is.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OPERATION_REFUSED if no file system has such a location
   */
  def of(session: SparkSession, location: String, act: String): OfflinePlace = {
    val resolved = resolve(session, location, act)
    val conf = session.sessionState.newHadoopConf()
    // Whatever the session says: it is a matter of what is there.
    conf.unset(Keys.Cuts.name)
    val parts = CutsAtRest.parts(resolved, conf)
    new OfflinePlace(session, resolved, parts.exists(_._1.cuts.last().isDefined))
  }

  /** One that is to be made. In a bucket epochs are always committed by cuts. */
  def to(
      session: SparkSession,
      location: String,
      act: String,
      isWithCuts: Boolean,
      said: Option[PlaceAccess] = None
  ): OfflinePlace = {
    val resolved = resolve(session, location, act)
    new OfflinePlace(session, resolved, isWithCuts || isInBucket(resolved), said)
  }

  def isInBucket(location: String): Boolean = SharedStores.isInBucket(new Path(location))

  /** As tasks name it, who know it from their stores. */
  private def resolve(session: SparkSession, location: String, act: String): String =
    try {
      val path = new Path(location)
      // Spark asks Hadoop for the file system, which is there only where queries may run.
      if (SharedStores.isInBucket(path)) path.toString
      else path.getFileSystem(session.sessionState.newHadoopConf()).makeQualified(path).toString
    } catch {
      case e: CleancutException => throw e
      case NonFatal(e)          =>
        val advice = BucketPath.ofS3a(location).fold("")(own => s"; use $own without hadoop-aws")
        val reason = s"no file system is available for this location ($e)$advice"
        throw Errors.operationRefused(act, location, reason)
    }
}

/**
 * Where the epoch of an act goes.
 *
 * @param last
 *   the last epoch there; -1 in a new place
 * @param epoch
 *   that of the act
 * @param isNew
 *   whether nothing is there yet
 */
final private[operations] case class OfflineTarget(
    place: OfflinePlace,
    last: Long,
    epoch: Long,
    isNew: Boolean
) {

  /** Whether the epoch before it is planned and never run. */
  def isBehindUnused: Boolean = epoch != last + 1

  /**
   * Refuses what cannot be made there.
   *
   * @param provider
   *   whose the state is to be
   * @param from
   *   the location of what it is made of; none for a query that has not run
   */
  def check(provider: String, from: Option[String], refused: String => Nothing): Unit = {
    if (provider == OfflinePlace.HdfsBacked) {
      val first = from.fold("configure the session with another one")(_ => "convert it first")
      refused(
        "its state is that of the HDFS-backed provider, which cannot make a version of its own " +
          s"choosing; $first"
      )
    }
    if (!place.isGated) {
      refused("its epochs are committed by cuts, and this session was not set up")
    }
    if (isNew) {
      if (place.isWithCuts && provider != ClassNames.StateStoreProvider) {
        refused(s"state of $provider cannot be committed by cuts, as in a bucket")
      }
      NewCheckpoint.check(place, from, refused)
    }
    if (provider != ClassNames.StateStoreProvider && !StoreOperations.CanWriteForSpark) {
      refused(
        s"its state is to be that of $provider, which cannot make a version of its own choosing " +
          s"on Spark ${BuiltFor.Spark}; do this on Spark 4.2 or later, or have it in Cleancut's"
      )
    }
  }
}

/**
 * One side of a rewrite: whose stores, of what provider.
 *
 * @param savepoint
 *   in which they are read
 * @param access
 *   how they are reached
 */
final private[operations] case class StoresAt(
    stateRoot: String,
    conf: StateStoreConf,
    savepoint: Option[String],
    access: PlaceAccess
)
