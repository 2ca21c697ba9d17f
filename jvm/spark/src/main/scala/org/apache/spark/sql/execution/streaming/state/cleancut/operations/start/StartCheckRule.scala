package org.apache.spark.sql.execution.streaming.state.cleancut.operations.start

import org.apache.spark.internal.Logging
import org.apache.spark.sql.{SparkSession => AnySession}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.StartErrors

import io.cleancut.conf.Keys
import io.cleancut.error.{CleancutException, Errors}

/**
 * Compares a query with its checkpoint when it starts, if its session is configured to. Spark
 * analyzes the plan, including sink and checkpoint, in `start()` itself. So `start()` throws in the
 * caller's thread before the query has begun.
 */
object StartCheckRule extends Logging {

  /** Called with every plan that a session analyzes. */
  def check(session: AnySession)(plan: LogicalPlan): Unit = (session, plan) match {
    case (classic: SparkSession, start: WriteToStream) =>
      StartErrors.convert(if (isEnabled(classic)) run(classic, start))
    case _ =>
  }

  private def isEnabled(session: SparkSession): Boolean =
    Keys.CheckCompatibility.read(session.conf.getAll) match {
      case Right(isRequested) => isRequested
      case Left(problem)      => throw Errors.confInvalid(Seq(problem))
    }

  /** Any query may start on a checkpoint that is new or has no state. */
  private def run(session: SparkSession, start: WriteToStream): Unit =
    try {
      val query = Dataset.ofRows(session, start.inputQuery)
      val location = start.resolvedCheckpointLocation
      val verdict = StartCheck.run(session, location, query, start.outputMode.toString)
      val (refused, others) = verdict.findings.partition(_.kind == StartFinding.Refused)
      others.foreach(finding =>
        logWarning(s"${finding.subject}: ${finding.what}. ${finding.advice}")
      )
      if (refused.nonEmpty) {
        val all = refused.map(finding =>
          s"${finding.subject}: ${finding.what.stripSuffix(".")}${advice(finding)}"
        )
        throw Errors.queryIncompatible(verdict.location, verdict.epoch, all.mkString("; "))
      }
    } catch {
      case e: CleancutException if NoState(e.getErrorId) => logDebug("There is no state yet", e)
    }

  private def advice(finding: StartFinding) =
    if (finding.advice.isEmpty) "" else s" (${finding.advice.stripSuffix(".")})"

  private val NoState = Set("CLEANCUT_CHECKPOINT_NOT_FOUND", "CLEANCUT_OPERATION_REFUSED")
}
