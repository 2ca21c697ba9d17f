package io.cleancut

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.{
  OfflineOperation,
  CloneTarget,
  OfflinePlan,
  PlannedEpochs
}
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.rows.OfflineEdit
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.running.RunningRescale
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.start.{
  FirstState,
  ParkedStart,
  StartCheck
}
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.{
  OfflineSource,
  StateRows
}

import io.cleancut.base.Clock
import io.cleancut.conf.Keys

/**
 * Operations on the checkpoint of a stopped query, for callers outside of the JVM.
 *
 * If `planned` is empty, each method returns its plan as JSON and changes nothing. The same call
 * with this JSON as `planned` executes the plan, unless the checkpoint has changed since then.
 * `fileSink` is the output path if the query uses Spark's file sink; otherwise it is empty.
 *
 * All throw CLEANCUT_CHECKPOINT_NOT_FOUND, CLEANCUT_OPERATION_REFUSED, and with `planned`
 * CLEANCUT_PLAN_OUTDATED and CLEANCUT_REWRITE_MISMATCH. With `rewrite`, rows are copied even if
 * stores could reference existing frames.
 */
object CleancutOffline {
  private val mapper = new ObjectMapper

  /**
   * Converts state to another provider.
   *
   * @param provider
   *   "cleancut" or "rocksdb"
   */
  def convert(
      session: SparkSession,
      location: String,
      fileSink: String,
      provider: String,
      planned: String
  ): String = {
    val to = Some(OfflineOperation.providerNamed(provider, "convert", location))
    execute(
      OfflineOperation.ToCleancut.copy(providerClass = to),
      session,
      location,
      fileSink,
      planned
    )
  }

  /** Changes the number of state partitions. */
  def rescale(
      session: SparkSession,
      location: String,
      fileSink: String,
      partitions: Int,
      rewrite: Boolean,
      planned: String
  ): String = {
    val operation = OfflineOperation.rescale(partitions).copy(isRewrite = rewrite)
    execute(operation, session, location, fileSink, planned)
  }

  /**
   * Changes the number of state partitions of a query that runs on this driver, between two of its
   * epochs, and returns the executed plan as JSON.
   *
   * @param timeoutMs
   *   limit of the wait for the end of an epoch
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_COORDINATOR_MISSING; CLEANCUT_OPERATION_REFUSED; CLEANCUT_RESCALE_INTERRUPTED, the
   *   query is stopped
   */
  def rescaleRunning(
      location: String,
      fileSink: String,
      partitions: Int,
      timeoutMs: Long
  ): String = {
    val sink = Option.when(fileSink.nonEmpty)(fileSink)
    json(RunningRescale.run(location, partitions, sink, timeoutMs, Clock.System))
  }

  /**
   * Continues from an earlier state.
   *
   * @param kind
   *   "epoch" or "time" with `number` (an epoch, or milliseconds since 1970), "savepoint" with
   *   `name`, or "undo" for the state before the last rollback
   * @param allowMissingInput
   *   whether to proceed although input files of later epochs are missing
   */
  def rollback(
      session: SparkSession,
      location: String,
      fileSink: String,
      kind: String,
      number: Long,
      name: String,
      rewrite: Boolean,
      allowMissingInput: Boolean,
      planned: String
  ): String = {
    val operation = OfflineOperation
      .rollback(source(kind, number, name))
      .copy(isRewrite = rewrite, allowsMissingInput = allowMissingInput)
    execute(operation, session, location, fileSink, planned)
  }

  /**
   * Creates another checkpoint and leaves this one unchanged.
   *
   * @param kind
   *   as in [[rollback]], with `number` and `name`; "last" for the last epoch
   * @param into
   *   location of the new checkpoint
   * @param isOtherQuery
   *   whether it belongs to a separate query
   * @param cuts
   *   "true" or "false", whether its epochs are committed with cuts; empty for the same as here
   * @param provider
   *   provider of the new state, "cleancut" or "rocksdb"; empty for the same as here
   * @param partitions
   *   number of state partitions; 0 for the same as here
   * @param access
   *   access settings of the store of the new location, as a JSON object by key names; empty for
   *   those of the session
   * @param allowMissingInput
   *   as in [[rollback]]
   */
  def copy(
      session: SparkSession,
      location: String,
      kind: String,
      number: Long,
      name: String,
      into: String,
      isOtherQuery: Boolean,
      cuts: String,
      provider: String,
      partitions: Int,
      access: String,
      allowMissingInput: Boolean,
      planned: String
  ): String = {
    val target = CloneTarget(
      into,
      isOtherQuery,
      Option.when(cuts.nonEmpty)(cuts.toBoolean),
      mapper.readTree(access).properties.asScala.map(key => key.getKey -> key.getValue.asText).toMap
    )
    val operation = OfflineOperation
      .copy(source(kind, number, name), target)
      .copy(
        partitions = Option.when(partitions != 0)(partitions),
        allowsMissingInput = allowMissingInput,
        providerClass = Option
          .when(provider.nonEmpty)(OfflineOperation.providerNamed(provider, "clone", location))
      )
    execute(operation, session, location, fileSink = "", planned)
  }

  /** Deletes a clone of a stopped query, with all objects below its location. */
  def deleteClone(session: SparkSession, location: String): Unit =
    ParkedStart.deleteClone(session, location)

  /** Rows of the state of a stopped query, with the columns `key` and `value`. */
  def state(
      session: SparkSession,
      location: String,
      operator: Long,
      store: String,
      family: String
  ): DataFrame = OfflineOperation.state(session, location, StateRows(operator, store, family))

  /** Replaces rows of the state. */
  def edit(
      session: SparkSession,
      location: String,
      fileSink: String,
      operator: Long,
      store: String,
      family: String,
      rows: DataFrame,
      planned: String
  ): String = {
    val target = StateRows(operator, store, family)
    val operation = OfflineOperation.edit(target, rows)
    execute(operation, session, location, fileSink, planned)
  }

  /** Rows for [[bootstrap]], with the columns `key` and `value`. */
  def rows(operator: Long, store: String, family: String, rows: DataFrame): OfflineEdit =
    OfflineEdit(StateRows(operator, store, family), rows)

  /**
   * Creates the checkpoint of a new query, with the given state.
   *
   * @param mode
   *   output mode, as Spark writes it
   * @param cuts
   *   "true" or "false", whether its epochs are committed with cuts; empty for the setting of the
   *   session
   */
  def bootstrap(
      session: SparkSession,
      location: String,
      fileSink: String,
      query: DataFrame,
      mode: String,
      rows: java.util.List[OfflineEdit],
      cuts: String,
      planned: String
  ): String = {
    val hasCuts =
      if (cuts.nonEmpty) cuts.toBoolean
      else session.sessionState.conf.getConfString(Keys.Cuts.name, "false").toBoolean
    val sink = Option.when(fileSink.nonEmpty)(fileSink)
    val isApplied = planned.nonEmpty
    json(
      FirstState
        .bootstrap(session, location, query, mode, rows.asScala.toSeq, hasCuts, sink, isApplied)
    )
  }

  /**
   * Creates a checkpoint in another location for a changed version of a query.
   *
   * @param cuts
   *   as in [[copy]]
   */
  def migrate(
      session: SparkSession,
      location: String,
      fileSink: String,
      into: String,
      query: DataFrame,
      mode: String,
      rows: java.util.List[OfflineEdit],
      cuts: String,
      isOtherQuery: Boolean,
      planned: String
  ): String = json(
    FirstState.migrate(
      session,
      location,
      into,
      query,
      mode,
      rows.asScala.toSeq,
      Option.when(cuts.nonEmpty)(cuts.toBoolean),
      isOtherQuery,
      Option.when(fileSink.nonEmpty)(fileSink),
      epochs(planned)
    )
  )

  /**
   * Compares a query with the checkpoint that it would start from. Changes nothing.
   *
   * @param mode
   *   output mode, as Spark writes it
   */
  def checkCompatibility(
      session: SparkSession,
      location: String,
      query: DataFrame,
      mode: String
  ): String = {
    val comparison = StartCheck.run(session, location, query, mode)
    val node =
      mapper.createObjectNode().put("location", comparison.location).put("epoch", comparison.epoch)
    node.put("isCompatible", comparison.isCompatible)
    val operators = node.putArray("operators")
    comparison.operators.foreach { case (id, name) =>
      operators.addObject().put("operator", id).put("name", name)
    }
    val findings = node.putArray("findings")
    comparison.findings.foreach { finding =>
      val entry = findings.addObject().put("kind", finding.kind).put("subject", finding.subject)
      entry.put("description", finding.what).put("advice", finding.advice)
    }
    mapper.writeValueAsString(node)
  }

  private def source(kind: String, number: Long, name: String): OfflineSource = kind match {
    case "last"      => OfflineSource.Last
    case "epoch"     => OfflineSource.Epoch(number)
    case "time"      => OfflineSource.Time(number)
    case "savepoint" => OfflineSource.Savepoint(name)
    case "undo"      => OfflineSource.BeforeRollback
    case other       => throw new IllegalArgumentException(s"unknown kind of source: $other")
  }

  private def execute(
      operation: OfflineOperation,
      session: SparkSession,
      location: String,
      fileSink: String,
      planned: String
  ): String = {
    val plan = epochs(planned)
    val request =
      operation.copy(fileSink = Option.when(fileSink.nonEmpty)(fileSink), planned = plan)
    json(if (plan.isDefined) request.run(session, location) else request.plan(session, location))
  }

  /** The epochs of a plan that [[json]] has written. */
  private def epochs(planned: String): Option[PlannedEpochs] = Option.when(planned.nonEmpty) {
    val plan = mapper.readTree(planned)
    def epoch(name: String) = plan.required(name).longValue
    PlannedEpochs(epoch("epoch"), epoch("source"), epoch("last"))
  }

  private def json(plan: OfflinePlan): String = {
    val node =
      mapper.createObjectNode().put("operation", plan.operation).put("location", plan.location)
    plan.target.foreach(node.put("target", _))
    node.put("epoch", plan.epoch).put("source", plan.source).put("last", plan.last)
    node.put("providerBefore", plan.providerBefore).put("provider", plan.provider)
    node.put("copiesRows", plan.copiesRows).put("missingFiles", plan.missingFiles)
    plan.facts.stateBytes.foreach(node.put("stateBytes", _))
    plan.facts.cores.foreach(node.put("cores", _))
    plan.facts.isStopped.foreach(node.put("isStopped", _))
    plan.facts.owner.foreach(node.put("owner", _))
    node.put("partitionsBefore", plan.partitionsBefore).put("partitions", plan.partitions)
    val operators = node.putArray("operators")
    plan.operators.foreach { operator =>
      val entry = operators.addObject().put("operator", operator.id).put("name", operator.name)
      entry
        .put("partitionsBefore", operator.partitionsBefore)
        .put("partitions", operator.partitions)
      entry.put("stores", operator.stores)
      operator.rows.foreach(entry.put("rows", _))
    }
    val notes = node.putArray("notes")
    plan.notes.foreach(notes.add)
    mapper.writeValueAsString(node)
  }
}
