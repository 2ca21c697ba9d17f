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
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.start.{
  FirstState,
  StartCheck
}
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.{
  OfflineSource,
  StateRows
}

import io.cleancut.conf.Keys

/**
 * Acts on the checkpoint of a stopped query, for callers outside of the JVM. Each returns its plan
 * as JSON and changes nothing, if `planned` is empty. The same call with this JSON as `planned`
 * executes the plan, unless the checkpoint has changed since. `fileSink` is what Spark's own sink
 * of files writes to, where that is the query's sink; else it is empty.
 *
 * All throw CLEANCUT_CHECKPOINT_NOT_FOUND, CLEANCUT_OPERATION_REFUSED, and with `planned`
 * CLEANCUT_PLAN_OUTDATED and CLEANCUT_REWRITE_MISMATCH. With `rewrite` rows are copied even where
 * stores can refer to what is there.
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
    done(OfflineOperation.ToCleancut.copy(providerClass = to), session, location, fileSink, planned)
  }

  /** Spreads state over another number of partitions. */
  def rescale(
      session: SparkSession,
      location: String,
      fileSink: String,
      partitions: Int,
      rewrite: Boolean,
      planned: String
  ): String = {
    val act = OfflineOperation.rescale(partitions).copy(isRewrite = rewrite)
    done(act, session, location, fileSink, planned)
  }

  /**
   * Goes on from an earlier state.
   *
   * @param kind
   *   "epoch" or "time", of which `number` tells which, the milliseconds since 1970; "savepoint",
   *   of which `name` does; "undo" for what the last rollback has left behind
   * @param allowMissingInput
   *   whether to do it although input files of later epochs are missing
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
    val act = OfflineOperation
      .rollback(source(kind, number, name))
      .copy(isRewrite = rewrite, allowsMissingInput = allowMissingInput)
    done(act, session, location, fileSink, planned)
  }

  /**
   * Makes another checkpoint, and leaves this one as it is.
   *
   * @param kind
   *   as of [[rollback]], with `number` and `name`; "last" for the last epoch
   * @param into
   *   where
   * @param isOtherQuery
   *   whether it is to be of a query of its own
   * @param cuts
   *   "true" or "false", whether cuts are to commit its epochs; empty for as it is in this one
   * @param provider
   *   "cleancut" or "rocksdb", whose the state is to be; empty for whose it is
   * @param partitions
   *   over how many it is to be spread; 0 for those that there are
   * @param access
   *   how the store of the new place is reached, as a JSON object by the names of keys; empty for
   *   as the session says
   * @param allowMissingInput
   *   as of [[rollback]]
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
    val to = CloneTarget(
      into,
      isOtherQuery,
      Option.when(cuts.nonEmpty)(cuts.toBoolean),
      mapper.readTree(access).properties.asScala.map(of => of.getKey -> of.getValue.asText).toMap
    )
    val act = OfflineOperation
      .copy(source(kind, number, name), to)
      .copy(
        partitions = Option.when(partitions != 0)(partitions),
        allowsMissingInput = allowMissingInput,
        providerClass = Option
          .when(provider.nonEmpty)(OfflineOperation.providerNamed(provider, "clone", location))
      )
    done(act, session, location, fileSink = "", planned)
  }

  /** Rows of the state of a stopped query, with the columns `key` and `value`. */
  def state(
      session: SparkSession,
      location: String,
      operator: Long,
      store: String,
      family: String
  ): DataFrame = OfflineOperation.state(session, location, StateRows(operator, store, family))

  /** Puts rows in the place of others. */
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
    val of = StateRows(operator, store, family)
    val act = OfflineOperation.edit(of, rows)
    done(act, session, location, fileSink, planned)
  }

  /** Rows for [[bootstrap]], with the columns `key` and `value`. */
  def rows(operator: Long, store: String, family: String, of: DataFrame): OfflineEdit =
    OfflineEdit(StateRows(operator, store, family), of)

  /**
   * Makes the checkpoint of a query that has not run, with the state that is given.
   *
   * @param mode
   *   the output mode, in Spark's words
   * @param cuts
   *   "true" or "false", whether cuts are to commit its epochs; empty for what the session says
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
    val isWithCuts =
      if (cuts.nonEmpty) cuts.toBoolean
      else session.sessionState.conf.getConfString(Keys.Cuts.name, "false").toBoolean
    val sink = Option.when(fileSink.nonEmpty)(fileSink)
    val isApplied = planned.nonEmpty
    json(
      FirstState
        .bootstrap(session, location, query, mode, rows.asScala.toSeq, isWithCuts, sink, isApplied)
    )
  }

  /**
   * Makes the checkpoint of a query that goes on in another form, in another place.
   *
   * @param cuts
   *   as of [[copy]]
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
   * What would become of a query that is started on a checkpoint; nothing is changed.
   *
   * @param mode
   *   the output mode, in Spark's words
   */
  def checkCompatibility(
      session: SparkSession,
      location: String,
      query: DataFrame,
      mode: String
  ): String = {
    val found = StartCheck.run(session, location, query, mode)
    val node = mapper.createObjectNode().put("location", found.location).put("epoch", found.epoch)
    node.put("isCompatible", found.isCompatible)
    val operators = node.putArray("operators")
    found.operators.foreach { case (id, name) =>
      operators.addObject().put("operator", id).put("name", name)
    }
    val findings = node.putArray("findings")
    found.findings.foreach { of =>
      val one = findings.addObject().put("kind", of.kind).put("subject", of.subject)
      one.put("description", of.what).put("advice", of.advice)
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

  private def done(
      of: OfflineOperation,
      session: SparkSession,
      location: String,
      fileSink: String,
      planned: String
  ): String = {
    val plan = epochs(planned)
    val act = of.copy(fileSink = Option.when(fileSink.nonEmpty)(fileSink), planned = plan)
    json(if (plan.isDefined) act.run(session, location) else act.plan(session, location))
  }

  /** Those of a plan, as [[json]] has written it. */
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
    node.put("partitionsBefore", plan.partitionsBefore).put("partitions", plan.partitions)
    val operators = node.putArray("operators")
    plan.operators.foreach { of =>
      val one = operators.addObject().put("operator", of.id).put("name", of.name)
      one.put("partitionsBefore", of.partitionsBefore).put("partitions", of.partitions)
      one.put("stores", of.stores)
      of.rows.foreach(one.put("rows", _))
    }
    val notes = node.putArray("notes")
    plan.notes.foreach(notes.add)
    mapper.writeValueAsString(node)
  }
}
