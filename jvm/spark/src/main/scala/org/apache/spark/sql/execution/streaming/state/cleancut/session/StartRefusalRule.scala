package org.apache.spark.sql.execution.streaming.state.cleancut.session

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.{SparkSession => AnySession}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.{WriteToStream, WriteToStreamStatement}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.{
  SharedStores,
  StoredCuts
}
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.StartErrors
import org.apache.spark.sql.internal.SQLConf

import io.cleancut.base.ClassNames
import io.cleancut.conf.{CaptureMode, Settings}
import io.cleancut.error.Errors
import io.cleancut.objectstore.BucketPath

/**
 * Refuses a query in `start()`, in the thread of the caller, before Spark creates anything in its
 * checkpoint location.
 */
object StartRefusalRule {
  private val FileManagerKey = "spark.sql.streaming.checkpointFileManagerClass"

  /**
   * Checks the configuration and the location as the user wrote it: a `Path` removes empty
   * segments, so that the query and a reader would use different locations.
   */
  final case class StatementCheck(session: AnySession) extends Rule[LogicalPlan] {
    override def apply(plan: LogicalPlan): LogicalPlan = {
      plan match {
        case start: WriteToStreamStatement => StartErrors.convert(checkLocation(conf, start))
        case _                             =>
      }
      plan
    }
  }

  /** Checks a query whose checkpoint location is known and created. */
  def check(session: AnySession)(plan: LogicalPlan): Unit = (session, plan) match {
    case (classic: SparkSession, start: WriteToStream) =>
      StartErrors.convert {
        checkMode(classic.sessionState.conf, classic, start)
        if (classic.sessionState.conf.stateStoreProviderClass == ClassNames.StateStoreProvider)
          PythonPackages.check(start.inputQuery, classic.sparkContext.isLocal)
      }
    case _ =>
  }

  private def checkLocation(conf: SQLConf, start: WriteToStreamStatement): Unit =
    if (managesFiles(conf)) {
      val settings = Settings.from(conf.getAllConfs)
      val named = conf.checkpointLocation.flatMap { base =>
        start.userSpecifiedName.map(name => s"${base.stripSuffix("/")}/$name")
      }
      start.userSpecifiedCheckpointLocation.orElse(named).foreach { location =>
        if (location.startsWith(s"${BucketPath.Scheme}://")) BucketPath.parse(location)
        else if (location.nonEmpty) SharedStores.refuseCopying(new Path(location), settings)
      }
    }

  private def checkMode(conf: SQLConf, session: SparkSession, start: WriteToStream): Unit = {
    val isOurs = conf.stateStoreProviderClass == ClassNames.StateStoreProvider
    val settings = Settings.from(conf.getAllConfs)
    val location = new Path(start.resolvedCheckpointLocation)
    def hasCuts = {
      val hadoopConf = session.sessionState.newHadoopConf()
      StoredCuts.lastEpoch(location, CheckpointFileManager.create(location, hadoopConf)).isDefined
    }
    if (
      isOurs && settings.channels.mode != CaptureMode.Aligned && !settings.cuts.contains(true) &&
      !SharedStores.isInBucket(location) && isStateful(start.inputQuery) && !hasCuts
    ) throw Errors.modeRequiresCuts(location.toString, CaptureMode.nameOf(settings.channels.mode))
  }

  private def managesFiles(conf: SQLConf): Boolean =
    conf.getConfString(FileManagerKey, "") == ClassNames.CheckpointFileManager

  /** Streaming operators that Spark plans with state. */
  private def isStateful(query: LogicalPlan): Boolean = query.exists {
    case join: Join => join.left.isStreaming && join.right.isStreaming
    case _: Aggregate | _: Distinct | _: Deduplicate | _: DeduplicateWithinWatermark |
        _: GlobalLimit | _: FlatMapGroupsWithState | _: FlatMapGroupsInPandasWithState |
        _: TransformWithState =>
      query.isStreaming
    case other => other.isStreaming && OfPython(other.getClass.getSimpleName)
  }

  // By name, because the classes differ between Spark versions.
  private val OfPython = Set("TransformWithStateInPandas", "TransformWithStateInPySpark")
}
