package org.apache.spark.sql.execution.streaming.state.cleancut.operations.start

import org.apache.spark.internal.Logging
import org.apache.spark.sql.{SparkSession => AnySession}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.classic.{Dataset, SparkSession}

import io.cleancut.conf.Keys
import io.cleancut.error.{CleancutException, Errors}

/**
 * Compares a query with its checkpoint when it is started, where its session asks for that. Spark
 * analyses what is to be written, sink and checkpoint included, in `start()` itself: so it is
 * refused there, in the thread of whoever starts it, and nothing has begun.
 */
object StartCheckRule extends Logging {

  /** Called with every plan that a session analyses. */
  def check(session: AnySession)(plan: LogicalPlan): Unit = (session, plan) match {
    case (classic: SparkSession, start: WriteToStream) if isAsked(classic) => run(classic, start)
    case _                                                                 =>
  }

  private def isAsked(session: SparkSession): Boolean =
    Keys.CheckCompatibility.read(session.conf.getAll) match {
      case Right(asked)  => asked
      case Left(problem) => throw Errors.confInvalid(Seq(problem))
    }

  /** A checkpoint that is new, or has no state, is one that any query may be started on. */
  private def run(session: SparkSession, start: WriteToStream): Unit =
    try {
      val query = Dataset.ofRows(session, start.inputQuery)
      val location = start.resolvedCheckpointLocation
      val found = StartCheck.run(session, location, query, start.outputMode.toString)
      val (refused, others) = found.findings.partition(_.kind == StartFinding.Refused)
      others.foreach(of => logWarning(s"${of.subject}: ${of.what}. ${of.advice}"))
      if (refused.nonEmpty) {
        val all = refused.map(of => s"${of.subject}: ${of.what.stripSuffix(".")}${advice(of)}")
        throw Errors.queryIncompatible(found.location, found.epoch, all.mkString("; "))
      }
    } catch {
      case e: CleancutException if NoState(e.getErrorId) => logDebug("There is no state yet", e)
    }

  private def advice(of: StartFinding) =
    if (of.advice.isEmpty) "" else s" (${of.advice.stripSuffix(".")})"

  private val NoState = Set("CLEANCUT_CHECKPOINT_NOT_FOUND", "CLEANCUT_OPERATION_REFUSED")
}
