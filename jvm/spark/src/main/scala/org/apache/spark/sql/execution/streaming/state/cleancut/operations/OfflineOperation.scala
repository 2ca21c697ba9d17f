package org.apache.spark.sql.execution.streaming.state.cleancut.operations

import java.io.FileNotFoundException
import java.util.UUID

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.rows.{
  EditableRows,
  OfflineEdit,
  PartitionOfKey
}
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.SerializableConfiguration

import io.cleancut.base.ClassNames
import io.cleancut.error.{CleancutException, Errors}
import io.cleancut.format.cut.SinkEpochs

/**
 * An operation on a stopped query's checkpoint. It adds an epoch to the checkpoint or creates
 * another checkpoint from it.
 *
 * @param name
 *   name for messages
 * @param providerClass
 *   provider of the new state; None keeps the provider
 * @param partitions
 *   number of state partitions; None keeps the number
 * @param source
 *   the state to start from
 * @param planned
 *   the plan that is executed; the operation is refused if the checkpoint has changed since
 * @param fileSink
 *   output path of Spark's file sink, if the query has one
 * @param edit
 *   rows that replace a part of the state
 * @param other
 *   the checkpoint to create; this one then stays unchanged
 * @param isRewrite
 *   whether rows are copied even if stores could reference existing frames
 * @param allowsMissingInput
 *   whether to resume from an earlier epoch although input files of later epochs are missing
 * @param runId
 *   the run of the query that performs the operation between two epochs; None if the query is
 *   stopped
 */
final case class OfflineOperation(
    name: String,
    providerClass: Option[String] = None,
    partitions: Option[Int] = None,
    source: OfflineSource = OfflineSource.Last,
    planned: Option[PlannedEpochs] = None,
    fileSink: Option[String] = None,
    edit: Option[OfflineEdit] = None,
    other: Option[CloneTarget] = None,
    isRewrite: Boolean = false,
    allowsMissingInput: Boolean = false,
    runId: Option[UUID] = None
) {
  import OfflineOperation._

  /**
   * Plans the operation without changing anything.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CHECKPOINT_NOT_FOUND, CLEANCUT_OPERATION_REFUSED
   */
  def plan(session: SparkSession, location: String): OfflinePlan = {
    val from = OfflinePlace.of(session, location, name)
    pendingSinkUpdate(from).fold {
      val (query, target) = checked(from)
      planOf(from, query, target).withInput(replayedInput(from, query))
    }(_._1)
  }

  /**
   * Runs the operation. If it is killed, the checkpoint is in the state before or after it. Between
   * the two, queries cannot start until the operation is run again. This also applies if it was
   * committed but a file sink has not been updated; the repeated run then only updates the sink. A
   * copy that was killed cannot be started until the clone is run again.
   *
   * @return
   *   the executed plan, with the rows of each operator
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CHECKPOINT_NOT_FOUND, CLEANCUT_OPERATION_REFUSED, CLEANCUT_PLAN_OUTDATED,
   *   CLEANCUT_REWRITE_MISMATCH
   */
  def run(session: SparkSession, location: String): OfflinePlan = {
    val from = OfflinePlace.of(session, location, name)
    try
      pendingSinkUpdate(from).fold(execute(from)) { case (plan, sink) =>
        planned.foreach(_.checkCommitted(plan, outdated(from)))
        sink.follow(plan.source, plan.epoch)
        plan
      }
    catch {
      case e @ WriteDenied(why) if !isRefusal(e) =>
        val where = other.fold(from.location)(clone => s"${from.location} or ${clone.target}")
        throw Errors.operationRefused(name, from.location, s"$where cannot be written ($why)")
    }
  }

  private def isRefusal(e: Throwable): Boolean = e match {
    case error: CleancutException => error.getErrorId == "CLEANCUT_OPERATION_REFUSED"
    case _                        => false
  }

  /** The operation that was killed after its commit and before its file sink was updated. */
  private def pendingSinkUpdate(from: OfflinePlace): Option[(OfflinePlan, SparkFileSink)] = for {
    output <- fileSink
    query = readLatest(from)
    source <- OfflineMarks.sourceOf(query.offsets)
    sink = new SparkFileSink(from.session, output)
    if running(from).isEmpty && sink.lacks(query.last)
  } yield {
    val note = s"Epoch ${query.last} is committed; the file sink still has to be updated."
    val plan = planOf(from, query, OfflineTarget(from, query.last, query.last, isNew = false))
    (plan.copy(source = source, notes = Seq(note)), sink)
  }

  private def execute(from: OfflinePlace): OfflinePlan = {
    val (query, target) = checked(from)
    val input = replayedInput(from, query)
    if (!allowsMissingInput) input.missing.foreach(files => refusing(from)(files.refusal))
    val edited = edit.map { change =>
      val stored = editable(from, query)(change.target)
      val rows = stored.refine(storedRows(from, query).of(stored.operator), refusing(from))
      rows.checkRows(change.rows, query, refusing(from))
      StateRewrite.Edited.of(rows, change.rows)
    }
    val written = withSavepoint(from, query) { savepoint =>
      if (target.isNew) prepare(target, from, query)
      val isBack = query.isBack && !target.isNew
      usingRun(target, isBack) { run =>
        val staged = stagedFor(target, query, run)
        run(s"cleancut: $name ${query.location}") {
          if (!target.isNew) OfflineEpoch.revertIncomplete(target, query)
          staged.foreach { state =>
            state.delete()
            state.create()
          }
          val isOther = other.exists(_.isOtherQuery)
          val sinks = if (isOther) SinkEpochs.Empty else CarriedRecords.of(from, query)
          run.replace(target, query, partitions, from, sinks)
          val written =
            try {
              val made = reference(from, query).fold[Seq[Written]](
                ifStored(query)(exclusively(target, query, staged) {
                  rewritten(from, query, target, run, savepoint, staged, edited)
                })
              )(_(from, target, run, savepoint, refusing(from)))
              exclusively(target, query, staged) {
                OfflineEpoch.commit(target, query, run, name, settings, made, staged)
              }
              made
            } finally staged.foreach(_.delete())
          // The sink must not have this entry earlier, or it would skip an epoch of the query.
          fileSink.foreach(new SparkFileSink(from.session, _).follow(query.epoch, target.epoch))
          written
        }
      }
    }
    planOf(from, query, target).withInput(input).withRows(written)
  }

  private def usingRun[A](target: OfflineTarget, isBack: Boolean)(body: OfflineRun => A): A =
    runId.fold(OfflineRun.using(target, name, OfflinePlace.newId(), isBack)(body)) {
      OfflineRun.ofQuery(target, name, _)(body)
    }

  /** Runs an action; another operation or the query may delete files that it requires. */
  private def exclusively[A](
      target: OfflineTarget,
      query: StoredQuery,
      staged: Option[StagedState]
  )(
      body: => A
  ): A =
    try body
    catch {
      case NonFatal(e) if !e.isInstanceOf[CleancutException] && hasChanged(target, query, staged) =>
        val reason = s"another operation or the query has changed it concurrently ($e)"
        throw Errors.operationRefused(name, target.place.location, reason)
    }

  private def hasChanged(
      target: OfflineTarget,
      query: StoredQuery,
      staged: Option[StagedState]
  ): Boolean = !target.isNew && {
    val committed = target.place.logs.commitLog.getLatest().map(_._1)
    !committed.contains(query.last) || staged.exists(!_.exists)
  }

  private def replayedInput(from: OfflinePlace, query: StoredQuery): InputCheck =
    if (query.isBack) new ReplayedInput(from, query).check else InputCheck.NothingReplayed

  private def rewritten(
      from: OfflinePlace,
      query: StoredQuery,
      target: OfflineTarget,
      run: OfflineRun,
      savepoint: Option[String],
      staged: Option[StagedState],
      edited: Option[StateRewrite.Edited]
  ): Seq[Rewritten] = {
    val before = query.confOf(from.session)
    val after = before.clone()
    settings.foreach { case (key, value) => after.setConfString(key, value) }
    val current = target.place.stores(after)
    val to = staged.fold(current)(staging => current.copy(stateRoot = staging.stateRoot))
    val source = from.stores(before, savepoint)
    val rewrite = new StateRewrite(target.place.session, query, target, source, to, run)
    rewrite(partitions, edited)
  }

  /**
   * Versions of Cleancut's stores have ordered IDs; versions of Spark's stores have numbers only.
   */
  private def stagedFor(
      target: OfflineTarget,
      query: StoredQuery,
      run: OfflineRun
  ): Option[StagedState] =
    Option.when(!target.isNew && providerAfter(query) != Cleancut) {
      new StagedState(target.place.location, run.id, target.place.hadoopConf)
    }

  /** The references to use if no row has to be copied. */
  private def reference(from: OfflinePlace, query: StoredQuery): Option[StateReference] = {
    val isInPlace = from.isWithCuts && other.isEmpty && edit.isEmpty && providerClass.isEmpty
    if (isInPlace && !isRewrite) StateReference.of(query, partitions, readsOf(from, query))
    else None
  }

  /** How often the rows of the state are read if all stores are loaded. */
  private def readsOf(from: OfflinePlace, query: StoredQuery): Long = {
    val archive = from.cuts.get._1
    val stored = query.cut.orElse(archive.cuts.open(query.epoch))
    stored.filter(_.head.referred.nonEmpty).fold(1L)(cut => new StateReads(archive).of(cut.whole))
  }

  /** Runs an action. The logs may contain an epoch whose state the provider has deleted. */
  private def ifStored[A](query: StoredQuery)(body: => A): A =
    try body
    catch {
      case NonFatal(e) if query.isBack && isMissing(e) =>
        val reason = s"the state after epoch ${query.epoch} no longer exists: ${e.getMessage}"
        throw Errors.operationRefused(name, query.location, reason)
    }

  private def isMissing(e: Throwable): Boolean =
    Iterator.iterate(e)(_.getCause).takeWhile(_ != null).exists {
      case _: FileNotFoundException => true
      case cause: CleancutException => cause.getErrorId == "CLEANCUT_FRAME_MISSING"
      // Causes from another process may be texts.
      case cause => Option(cause.getMessage).exists(_.contains("CANNOT_READ_STREAMING_STATE_FILE"))
    }

  private def withSavepoint[A](from: OfflinePlace, query: StoredQuery)(
      body: Option[String] => A
  ): A =
    source match {
      case OfflineSource.Savepoint(name) => body(Some(name))
      case _ if other.isDefined          => from.withSavepoint(query.epoch)(body)
      case _                             => body(None)
    }

  private def prepare(target: OfflineTarget, from: OfflinePlace, query: StoredQuery): Unit = {
    OfflineEpoch.revertIncomplete(target, query)
    target.place.files.createCheckpointDirectory()
    // An operation that was interrupted may have left snapshots of other versions.
    target.place.files.delete(new Path(target.place.stateRoot))
    OfflineEpoch.announce(target, query, name, settings)
    NewCheckpoint.identify(target.place, from, name, other.exists(_.isOtherQuery))
    CarriedRecords.continue(target.place, from, query, other.exists(_.isOtherQuery))
    NewCheckpoint.copySources(target.place, from, query.offsets)
    NewCheckpoint.copySchemas(target.place, from, query)
  }

  private def settings: Map[String, String] =
    providerClass.map(SQLConf.STATE_STORE_PROVIDER_CLASS.key -> _).toMap ++
      partitions.map(SQLConf.SHUFFLE_PARTITIONS.key -> _.toString)

  private def targetOf(from: OfflinePlace, query: StoredQuery): OfflineTarget = other match {
    case None =>
      // An unused epoch prevents a query from starting on the entry alone. Otherwise the state of
      // the old and of the new partitions would have versions that this query takes for its own.
      val isSkipping =
        query.isBack || edit.isDefined || (partitions.isDefined && !from.isWithCuts)
      val epoch =
        if (query.isHalfDone && from.isWithCuts) query.planned + 2
        else if (isSkipping) query.begun + 2
        else query.last + 1
      OfflineTarget(from, query.last, epoch, isNew = false)
    case Some(clone) =>
      val isCleancuts = providerAfter(query) == Cleancut
      val isWithCuts = isCleancuts && clone.isWithCuts.getOrElse(from.isWithCuts)
      val place =
        OfflinePlace.to(from.session, clone.target, name, isWithCuts, clone.accessOfItsOwn)
      // After all epochs that sinks may have received from the query.
      OfflineTarget(place, last = -1L, query.begun + 2, isNew = true)
  }

  private def providerAfter(query: StoredQuery) = providerClass.getOrElse(query.providerClass)

  private def planOf(from: OfflinePlace, query: StoredQuery, target: OfflineTarget) = OfflinePlan(
    name,
    query.location,
    other.map(_ => target.place.location),
    target.epoch,
    query.epoch,
    query.last,
    query.providerClass,
    providerAfter(query),
    query.partitions,
    partitions.getOrElse(query.partitions),
    query.operators.map { operator =>
      OfflinePlan.Operator
        .of(operator, partitions.fold(operator.partitions)(operator.partitionsOf).size)
    },
    other match {
      case Some(clone)          => clone.accessOfItsOwn.map(neededBy).toSeq
      case None if query.isBack => RollbackNotes.of(query, target.epoch, fileSink)
      case None                 => Nil
    },
    copiesRows = reference(from, query).isEmpty,
    facts = SourceFacts.of(from, query)
  )

  private def neededBy(access: PlaceAccess) =
    s"A query that is started there needs the settings $access."

  private def refusing(from: OfflinePlace)(reason: String): Nothing =
    throw Errors.operationRefused(name, from.location, reason)

  private def editable(from: OfflinePlace, query: StoredQuery)(rows: StateRows): EditableRows =
    OfflineEdit.rowsOf(query, rows, refusing(from))

  /** The source and the target of the operation, after all checks. */
  private def checked(from: OfflinePlace): (StoredQuery, OfflineTarget) = {
    def refused(reason: String) = refusing(from)(reason)
    partitions.filter(_ < 1).foreach { n =>
      refused(s"the number of partitions must be at least 1, not $n")
    }
    val query = readSource(from)
    if (runId.isEmpty && (other.isEmpty || !from.isWithCuts)) checkStopped(from, refused)
    checkProvider(from, query, refused)
    if (other.isEmpty && query.partitions != partitionsNow(from, query) && !from.isWithCuts) {
      refused(
        s"it had ${query.partitions} partitions after epoch ${query.epoch}, and has others now; " +
          "without cuts you can only roll back to epochs since the last rescale"
      )
    }
    // A copy may keep its partitions.
    partitions.filter(_ == query.partitions && other.isEmpty).foreach { n =>
      refused(s"it has $n partitions already")
    }
    if (other.exists(_.isWithCuts.contains(true)) && providerAfter(query) != Cleancut) {
      refused(
        s"cuts can only commit state of Cleancut, and the provider would be ${providerAfter(query)}"
      )
    }
    for (_ <- partitions; operator <- query.operators.find(!PartitionOfKey.isKnown(_)))
      refused(
        s"the partitions of the keys of operator ${operator.id} (${operator.name}) are not known"
      )
    if (partitions.isDefined || edit.isDefined) query.checkPartitioning(refused)
    for (sink <- fileSink; why <- new SparkFileSink(from.session, sink).problem(query.epoch))
      refused(why)
    val target = targetOf(from, query)
    if (other.exists(_.access.nonEmpty) && !OfflinePlace.isInBucket(target.place.location)) {
      refused(
        s"${target.place.location} is not in a bucket, but access settings for a bucket were given"
      )
    }
    target.check(providerAfter(query), Some(from.location), refused)
    query.checkInFlight(from, refused) { bytes =>
      if (!target.place.isWithCuts) Some("which only cuts can store")
      else Option.when(partitions.nonEmpty && bytes > MaxInFlightBytes)(s"of $bytes bytes")
    }
    edit.foreach(change => editable(from, query)(change.target).check(change.rows, refused))
    if (runId.isDefined && reference(from, query).isEmpty) {
      refused(
        s"rows would be copied from ${query.partitions} to ${partitions.getOrElse("")} " +
          "partitions, which only a stopped query allows; choose a multiple or a divisor"
      )
    }
    (query, target)
  }

  /** Reads the requested state, or the planned state if a plan is executed. */
  private def readSource(from: OfflinePlace): StoredQuery = {
    def read(source: OfflineSource) =
      StoredQuery.read(from, name, source, isCopied = other.isDefined)
    planned.fold(read(source)) { plan =>
      if (other.isEmpty) plan.checkLast(from, outdated(from))
      val query = read(plan.sourceIn(from, source, isCopied = other.isDefined, outdated(from)))
      plan.checkSource(query, outdated(from))
      query
    }
  }

  private def outdated(from: OfflinePlace)(reason: String): Nothing = {
    val options = partitions.fold("")(count => s" --partitions $count")
    val command = (name, other) match {
      case ("edit", _)      => s"cleancut.edit('${from.location}', …)"
      case (_, Some(clone)) => s"cleancut clone ${from.location} ${clone.target}$options"
      case ("rollback", _)  =>
        planned.fold("")(plan => s"cleancut rollback ${from.location} --to-epoch ${plan.source}")
      case ("convert", _) =>
        val provider = if (providerClass.contains(Cleancut)) "cleancut" else "rocksdb"
        s"cleancut convert ${from.location} --provider $provider"
      case _ => s"cleancut $name ${from.location}$options"
    }
    throw Errors.planOutdated(name, from.location, reason, command)
  }

  private def checkProvider(
      from: OfflinePlace,
      query: StoredQuery,
      refused: String => Nothing
  ): Unit = providerClass.filter(_ => other.isEmpty).foreach { to =>
    if (from.isWithCuts) {
      refused("its epochs are committed by cuts, which only Cleancut supports; clone it instead")
    }
    if (to == query.providerClass) refused(s"it already uses $to")
    if (to != Cleancut && query.providerClass != Cleancut) {
      refused(s"it uses ${query.providerClass} instead of Cleancut")
    }
  }

  /** The number of partitions after its last epoch. */
  private def partitionsNow(from: OfflinePlace, query: StoredQuery): Int =
    if (!query.isBack) query.partitions
    else readLatest(from).partitions

  private def readLatest(from: OfflinePlace): StoredQuery =
    StoredQuery.read(from, name, OfflineSource.Last, isCopied = false, isInspection = true)
}

/**
 * The checkpoint that a clone creates.
 *
 * @param target
 *   its location, which must be empty
 * @param isOtherQuery
 *   whether it belongs to a new query
 * @param isWithCuts
 *   whether cuts commit its epochs; None as in the source checkpoint
 * @param access
 *   settings of its object store, by key; empty as in the session
 */
final case class CloneTarget(
    target: String,
    isOtherQuery: Boolean,
    isWithCuts: Option[Boolean] = None,
    access: Map[String, String] = Map.empty
) {
  private[operations] def accessOfItsOwn: Option[PlaceAccess] =
    Option.when(access.nonEmpty)(PlaceAccess.only(access))
}

object OfflineOperation {

  /** The run of the query, in any session of the application. */
  private def running(from: OfflinePlace): Option[UUID] =
    from.session.sharedState.activeStreamingQueries.values.asScala
      .collectFirst {
        case stream if new Path(stream.resolvedCheckpointRoot).toString == from.location =>
          stream.runId
      }

  private[operations] def checkStopped(from: OfflinePlace, refused: String => Nothing): Unit =
    running(from).foreach { run =>
      refused(s"the query runs in this application (run $run); stop it first")
    }

  private[cleancut] val Cleancut = ClassNames.StateStoreProvider

  /**
   * Limit of in-flight rows that are distributed to other partitions through the driver, in
   * compressed bytes.
   */
  private val MaxInFlightBytes = 256L << 20

  /** RocksDB is the only provider in Spark that supports every operator. */
  private val Providers = Map(
    "cleancut" -> Cleancut,
    "rocksdb" -> "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
  )

  /**
   * The class of a state store provider.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OPERATION_REFUSED if no provider has this name
   */
  def providerNamed(name: String, operation: String, location: String): String =
    Providers.getOrElse(
      name, {
        val reason = s"no provider is named '$name'; use 'cleancut' or 'rocksdb'"
        throw Errors.operationRefused(operation, location, reason)
      }
    )

  /** Converts the state to another provider. */
  val ToCleancut: OfflineOperation = OfflineOperation("convert", providerClass = Some(Cleancut))
  val ToRocksDb: OfflineOperation =
    OfflineOperation("convert", providerClass = Some(Providers("rocksdb")))

  def rescale(partitions: Int): OfflineOperation =
    OfflineOperation("rescale", partitions = Some(partitions))

  /** Resumes from an earlier state. */
  def rollback(to: OfflineSource): OfflineOperation = OfflineOperation("rollback", source = to)

  /** Rows of the state after the last epoch, in the form in which they can be edited. */
  def state(session: SparkSession, location: String, rows: StateRows): DataFrame = {
    val from = OfflinePlace.of(session, location, "edit")
    val query = StoredQuery.read(from, "edit", OfflineSource.Last, isCopied = false)
    storedRows(from, query).frame(OfflineOperation("edit").editable(from, query)(rows))
  }

  private def storedRows(from: OfflinePlace, query: StoredQuery): StoredRows = {
    val stores = from.stores(query.confOf(from.session))
    val conf = from.session.sparkContext.broadcast(new SerializableConfiguration(from.hadoopConf))
    val version = query.epoch + 1
    val read =
      new OfflineStores(version, version, stores, stores, OfflinePlace.newId(), conf, query.access)
    new StoredRows(from.session, read, StateRewrite.tasksOf(query))
  }

  /** Replaces rows of the state. */
  def edit(target: StateRows, rows: DataFrame): OfflineOperation =
    OfflineOperation("edit", edit = Some(OfflineEdit(target, rows)))

  /** Creates another checkpoint from one of its states. */
  def copy(source: OfflineSource, to: CloneTarget): OfflineOperation =
    OfflineOperation("clone", source = source, other = Some(to))
}

/**
 * The plan of an operation, or its result.
 *
 * @param operation
 *   name of the operation
 * @param target
 *   location of the checkpoint that it creates, if any
 * @param epoch
 *   epoch of the operation
 * @param source
 *   epoch whose state it has
 * @param last
 *   last epoch before it
 * @param partitionsBefore
 *   number of partitions of operators that are partitioned by key, before the operation
 * @param notes
 *   further facts that the operator must know before the operation runs
 * @param copiesRows
 *   whether the rows of the state are written again, and not referenced
 * @param missingFiles
 *   number of input files that the query has to read again and that no longer exist
 * @param facts
 *   size of the state, and the run that owns it
 */
final case class OfflinePlan(
    operation: String,
    location: String,
    target: Option[String],
    epoch: Long,
    source: Long,
    last: Long,
    providerBefore: String,
    provider: String,
    partitionsBefore: Int,
    partitions: Int,
    operators: Seq[OfflinePlan.Operator],
    notes: Seq[String],
    copiesRows: Boolean = true,
    missingFiles: Int = 0,
    facts: SourceFacts = SourceFacts.Unknown
) {

  private[operations] def withInput(input: InputCheck): OfflinePlan =
    copy(notes = notes ++ input.notes, missingFiles = input.missing.fold(0)(_.paths.size))

  /** The same plan with the rows that were written; 0 if no row had to be written. */
  private[operations] def withRows(written: Seq[Written]): OfflinePlan = {
    val rows = written
      .collect { case state: Rewritten => state }
      .groupMapReduce(_.operator)(_.sum.rows)(_ + _)
    copy(operators =
      operators.map(operator => operator.copy(rows = Some(rows.getOrElse(operator.id, 0L))))
    )
  }
}

object OfflinePlan {

  /**
   * @param stores
   *   number of stores of each partition
   * @param rows
   *   number of written rows, once they are written
   */
  final case class Operator(
      id: Long,
      name: String,
      partitionsBefore: Int,
      partitions: Int,
      stores: Int,
      rows: Option[Long]
  )

  object Operator {

    /** The operator in a plan that has not run. */
    private[operations] def of(stored: StoredOperator, partitions: Int): Operator = Operator(
      stored.id,
      stored.name,
      stored.partitions.size,
      partitions,
      stored.stores.size,
      rows = None
    )
  }
}
