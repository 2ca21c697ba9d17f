package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

import java.util.UUID

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.StateStoreConf
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.{
  StoppedQueryCuts,
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
 * A checkpoint location that an operation reads or writes.
 *
 * @param location
 *   location as Spark resolves it
 * @param isWithCuts
 *   whether cuts commit epochs there
 * @param said
 *   access settings that differ from those of the session
 */
final private[operations] class OfflinePlace private (
    outer: SparkSession,
    val location: String,
    val isWithCuts: Boolean,
    said: Option[PlaceAccess] = None
) {

  /**
   * A session with the cut settings of this location; the given session's settings apply to queries
   * that it starts.
   */
  val session: SparkSession = {
    val session = outer.cloneSession()
    session.sessionState.conf.setConfString(Keys.Cuts.name, isWithCuts.toString)
    said.foreach(_.setIn(session.sessionState.conf))
    session
  }

  val access: PlaceAccess = PlaceAccess.of(session.sessionState.conf)

  def hadoopConf: Configuration = session.sessionState.newHadoopConf()

  def stateRoot: String = StoredQuery.stateRoot(location)

  def logs: EpochLogs = new EpochLogs(session, location, isNew = false)

  /** The same for a checkpoint that is created. */
  def newLogs: EpochLogs = new EpochLogs(session, location, isNew = true)

  def files: CheckpointFileManager = filesAt(new Path(location))

  /** The file manager of one of its logs. */
  def filesAt(log: Path): CheckpointFileManager = CheckpointFileManager.create(log, hadoopConf)

  /** None if there are no cuts. */
  def cuts: Option[(CutArchive, SparkLogs)] =
    if (isWithCuts) StoppedQueryCuts.parts(location, hadoopConf) else None

  /**
   * Keeps the cut of an epoch while `body` runs, if there are cuts: a running query deletes
   * unreferenced objects.
   */
  def withSavepoint[A](epoch: Long)(body: Option[String] => A): A = cuts match {
    case None               => body(None)
    case Some((archive, _)) =>
      val name = s"copy-${OfflinePlace.newId()}"
      // Without write access, the cut is read as it is, and garbage collection ends the operation.
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

  /** Whether a cut precedes each entry of its commit log, if cuts are enabled. */
  def hasCutPerEntry: Boolean = !isWithCuts ||
    session.sessionState.conf.getConfString(OfflinePlace.FileManagerKey, "") ==
    ClassNames.CheckpointFileManager
}

private[operations] object OfflinePlace {
  private[operations] val HdfsBacked =
    "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"

  /** An ID that no query and no run has. */
  private[operations] def newId(): UUID = UUID.nameUUIDFromBytes(Clock.System.randomBytes(16))

  private val FileManagerKey = SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key

  /**
   * An existing checkpoint location.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OPERATION_REFUSED if no file system supports the location
   */
  def of(session: SparkSession, location: String, operation: String): OfflinePlace = {
    val resolved = resolve(session, location, operation)
    val conf = session.sessionState.newHadoopConf()
    // The existing objects decide, and not the session's setting.
    conf.unset(Keys.Cuts.name)
    val parts = StoppedQueryCuts.parts(resolved, conf)
    new OfflinePlace(session, resolved, parts.exists(_._1.cuts.last().isDefined))
  }

  /** The location of a new checkpoint. In a bucket, epochs are always committed by cuts. */
  def to(
      session: SparkSession,
      location: String,
      operation: String,
      isWithCuts: Boolean,
      said: Option[PlaceAccess] = None
  ): OfflinePlace = {
    val resolved = resolve(session, location, operation)
    new OfflinePlace(session, resolved, isWithCuts || isInBucket(resolved), said)
  }

  def isInBucket(location: String): Boolean = SharedStores.isInBucket(new Path(location))

  /** The location as tasks name it in their stores. */
  private def resolve(session: SparkSession, location: String, operation: String): String =
    try {
      val path = new Path(location)
      // Spark requests the file system from Hadoop, which is installed only where queries may run.
      if (SharedStores.isInBucket(path)) path.toString
      else path.getFileSystem(session.sessionState.newHadoopConf()).makeQualified(path).toString
    } catch {
      case e: CleancutException => throw e
      case NonFatal(e)          =>
        val advice = BucketPath.ofS3a(location).fold("")(url => s"; use $url without hadoop-aws")
        val reason = s"no file system is available for this location ($e)$advice"
        throw Errors.operationRefused(operation, location, reason)
    }
}

/**
 * The target epoch of an operation.
 *
 * @param last
 *   last epoch there; -1 in a new location
 * @param epoch
 *   epoch of the operation
 * @param isNew
 *   whether the location is empty
 */
final private[operations] case class OfflineTarget(
    place: OfflinePlace,
    last: Long,
    epoch: Long,
    isNew: Boolean
) {

  /** Whether the epoch before it is planned and never runs. */
  def hasUnusedBefore: Boolean = epoch != last + 1

  /**
   * Refuses checkpoints that cannot be created there.
   *
   * @param provider
   *   provider of the new state
   * @param from
   *   location of the source checkpoint; None for a query that has not run
   */
  def check(provider: String, from: Option[String], refused: String => Nothing): Unit = {
    if (provider == OfflinePlace.HdfsBacked) {
      val advice =
        from.fold("configure the session with another provider")(_ =>
          "convert the checkpoint first"
        )
      refused(
        "its provider is the HDFS-backed one, which cannot create a version with a given number; " +
          advice
      )
    }
    if (!place.hasCutPerEntry) {
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
        s"its provider would be $provider, which cannot create a version with a given number on " +
          s"Spark ${BuiltFor.Spark}; use Spark 4.2 or later, or Cleancut's provider"
      )
    }
  }
}

/**
 * Location, provider and access settings of the stores on one side of a rewrite.
 *
 * @param savepoint
 *   the savepoint that they are read from; None for the last cut
 * @param access
 *   access settings of the location
 */
final private[operations] case class StoresAt(
    stateRoot: String,
    conf: StateStoreConf,
    savepoint: Option[String],
    access: PlaceAccess
)
