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
 * Something that is done to a stopped query's checkpoint, by an epoch of its own; or that is made
 * of it in another place.
 *
 * @param name
 *   for messages
 * @param providerClass
 *   whose the state is to be; that whose it is where none is given
 * @param partitions
 *   over how many it is to be spread; those that there are where none is given
 * @param source
 *   of which of its states
 * @param planned
 *   the plan that is executed; the operation is refused if the checkpoint has changed since
 * @param fileSink
 *   what Spark's own sink of files writes to, where that is the query's sink
 * @param edit
 *   rows in the place of some of its state
 * @param other
 *   where another checkpoint is to be made, which leaves this one as it is
 * @param isRewrite
 *   whether rows are copied even where stores can refer to what is there
 * @param allowsMissingInput
 *   whether to resume from an earlier epoch although input files of later epochs are missing
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
    allowsMissingInput: Boolean = false
) {
  import OfflineOperation._

  /**
   * What it would do.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CHECKPOINT_NOT_FOUND, CLEANCUT_OPERATION_REFUSED
   */
  def plan(session: SparkSession, location: String): OfflinePlan = {
    val from = OfflinePlace.of(session, location, name)
    behindSink(from).fold {
      val (query, target) = checked(from)
      planOf(from, query, target).withInput(replayedInput(from, query))
    }(_._1)
  }

  /**
   * Does it. Killed at any moment it leaves the checkpoint as it was, or as it is to be; in between
   * there is one moment at which a query cannot start, until the act is begun again. So it is to be
   * where it was committed and a sink of files has not heard of it; it then does that alone. A copy
   * that was killed cannot be started, until it is begun again.
   *
   * @return
   *   what was done, with the rows of each operator
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CHECKPOINT_NOT_FOUND, CLEANCUT_OPERATION_REFUSED, CLEANCUT_PLAN_OUTDATED,
   *   CLEANCUT_REWRITE_MISMATCH
   */
  def run(session: SparkSession, location: String): OfflinePlan = {
    val from = OfflinePlace.of(session, location, name)
    try
      behindSink(from).fold(done(from)) { case (plan, sink) =>
        planned.foreach(_.checkCommitted(plan, outdated(from)))
        sink.follow(plan.source, plan.epoch)
        plan
      }
    catch {
      case e @ WriteDenied(why) if !isRefusal(e) =>
        val where = other.fold(from.location)(of => s"${from.location} or ${of.target}")
        throw Errors.operationRefused(name, from.location, s"$where cannot be written ($why)")
    }
  }

  private def isRefusal(e: Throwable): Boolean = e match {
    case of: CleancutException => of.getErrorId == "CLEANCUT_OPERATION_REFUSED"
    case _                     => false
  }

  /** The act that was killed when it was committed, and its sink had not heard of it yet. */
  private def behindSink(from: OfflinePlace): Option[(OfflinePlan, SparkFileSink)] = for {
    output <- fileSink
    query = lookedAt(from)
    source <- OfflineMarks.sourceOf(query.offsets)
    sink = new SparkFileSink(from.session, output)
    if running(from).isEmpty && sink.lacks(query.last)
  } yield {
    val note = s"Epoch ${query.last} is committed; what is left is to tell the sink of it."
    val plan = planOf(from, query, OfflineTarget(from, query.last, query.last, isNew = false))
    (plan.copy(source = source, notes = Seq(note)), sink)
  }

  private def done(from: OfflinePlace): OfflinePlan = {
    val (query, target) = checked(from)
    val input = replayedInput(from, query)
    if (!allowsMissingInput) input.missing.foreach(of => refusing(from)(of.refusal))
    val edited = edit.map { of =>
      val asked = editable(from, query)(of.of)
      val rows = asked.knowing(there(from, query).of(asked.operator), refusing(from))
      rows.checkRows(of.rows, query, refusing(from))
      StateRewrite.Edited.of(rows, of.rows)
    }
    val written = pinned(from, query) { savepoint =>
      if (target.isNew) prepare(target, from, query)
      val isBack = query.isBack && !target.isNew
      OfflineRun.using(target, name, OfflinePlace.newId(), isBack) { run =>
        val staged = stagedFor(target, query, run)
        run(s"cleancut: $name ${query.location}") {
          if (!target.isNew) OfflineEpoch.takeBack(target, query)
          staged.foreach { of =>
            of.delete()
            of.create()
          }
          val isOther = other.exists(_.isOtherQuery)
          val sinks = if (isOther) SinkEpochs.Empty else CarriedRecords.of(from, query)
          run.replace(target, query, partitions, from, sinks)
          val written =
            try {
              val made = reference(from, query).fold[Seq[Written]](
                ifThere(query)(alone(target, query, staged) {
                  rewritten(from, query, target, run, savepoint, staged, edited)
                })
              )(_(from, target, run, savepoint, refusing(from)))
              alone(target, query, staged) {
                OfflineEpoch.commit(target, query, run, name, settings, made, staged)
              }
              made
            } finally staged.foreach(_.delete())
          // It must not have an entry before that, or it would pass over an epoch of the query's.
          fileSink.foreach(new SparkFileSink(from.session, _).follow(query.epoch, target.epoch))
          written
        }
      }
    }
    planOf(from, query, target).withInput(input).done(written)
  }

  /** Another operation, or a query, may take away files that this one needs. */
  private def alone[A](target: OfflineTarget, query: StoredQuery, staged: Option[StagedState])(
      body: => A
  ): A =
    try body
    catch {
      case NonFatal(e) if !e.isInstanceOf[CleancutException] && hasChanged(target, query, staged) =>
        val reason = s"another operation or the query has changed it meanwhile ($e)"
        throw Errors.operationRefused(name, target.place.location, reason)
    }

  private def hasChanged(
      target: OfflineTarget,
      query: StoredQuery,
      staged: Option[StagedState]
  ): Boolean = !target.isNew && {
    val committed = target.place.logs.commitLog.getLatest().map(_._1)
    !committed.contains(query.last) || staged.exists(!_.isThere)
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
    val own = target.place.stores(after)
    val to = staged.fold(own)(of => own.copy(stateRoot = of.stateRoot))
    val source = from.stores(before, savepoint)
    val rewrite = new StateRewrite(target.place.session, query, target, source, to, run)
    rewrite(partitions, edited)
  }

  /** Versions of Cleancut's stores have ids that order them; Spark's have numbers alone. */
  private def stagedFor(
      target: OfflineTarget,
      query: StoredQuery,
      run: OfflineRun
  ): Option[StagedState] =
    Option.when(!target.isNew && providerAfter(query) != Cleancut) {
      new StagedState(target.place.location, run.id, target.place.hadoopConf)
    }

  /** How it is done where no row need be copied. */
  private def reference(from: OfflinePlace, query: StoredQuery): Option[StateReference] = {
    val isInPlace = from.isWithCuts && other.isEmpty && edit.isEmpty && providerClass.isEmpty
    if (isInPlace && !isRewrite) StateReference.of(query, partitions) else None
  }

  /** Logs may still speak of an epoch whose state the provider has deleted. */
  private def ifThere[A](query: StoredQuery)(body: => A): A =
    try body
    catch {
      case NonFatal(e) if query.isBack && isMissing(e) =>
        val reason = s"the state after epoch ${query.epoch} is not there any more: ${e.getMessage}"
        throw Errors.operationRefused(name, query.location, reason)
    }

  private def isMissing(e: Throwable): Boolean =
    Iterator.iterate(e)(_.getCause).takeWhile(_ != null).exists {
      case _: FileNotFoundException => true
      case of: CleancutException    => of.getErrorId == "CLEANCUT_FRAME_MISSING"
      // Causes that come from another process may be texts.
      case of => Option(of.getMessage).exists(_.contains("CANNOT_READ_STREAMING_STATE_FILE"))
    }

  private def pinned[A](from: OfflinePlace, query: StoredQuery)(body: Option[String] => A): A =
    source match {
      case OfflineSource.Savepoint(name) => body(Some(name))
      case _ if other.isDefined          => from.pinned(query.epoch)(body)
      case _                             => body(None)
    }

  private def prepare(target: OfflineTarget, from: OfflinePlace, query: StoredQuery): Unit = {
    OfflineEpoch.takeBack(target, query)
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
      // An unused epoch keeps a query from starting on the entry alone. The state of the old and of
      // the new partitions would otherwise have versions that such a query takes for its own.
      val isSkipping =
        query.isBack || edit.isDefined || (partitions.isDefined && !from.isWithCuts)
      val epoch =
        if (query.isHalfDone && from.isWithCuts) query.planned + 2
        else if (isSkipping) query.begun + 2
        else query.last + 1
      OfflineTarget(from, query.last, epoch, isNew = false)
    case Some(of) =>
      val isCleancuts = providerAfter(query) == Cleancut
      val isWithCuts = isCleancuts && of.isWithCuts.getOrElse(from.isWithCuts)
      val place = OfflinePlace.to(from.session, of.target, name, isWithCuts, of.accessOfItsOwn)
      // After all that sinks may have seen of the query.
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
    query.operators.map { of =>
      OfflinePlan.Operator.of(of, partitions.fold(of.partitions)(of.partitionsOf).size)
    },
    other match {
      case Some(of)             => of.accessOfItsOwn.map(neededBy).toSeq
      case None if query.isBack => RollbackNotes.of(query, target.epoch, fileSink)
      case None                 => Nil
    },
    copiesRows = reference(from, query).isEmpty
  )

  private def neededBy(access: PlaceAccess) =
    s"A query that is started there needs the settings $access."

  private def refusing(from: OfflinePlace)(reason: String): Nothing =
    throw Errors.operationRefused(name, from.location, reason)

  private def editable(from: OfflinePlace, query: StoredQuery)(of: StateRows): EditableRows =
    OfflineEdit.rowsOf(query, of, refusing(from))

  /** What it is made of, and where it goes. */
  private def checked(from: OfflinePlace): (StoredQuery, OfflineTarget) = {
    def refused(reason: String) = refusing(from)(reason)
    partitions.filter(_ < 1).foreach { n =>
      refused(s"$n is no number of partitions; it takes at least one")
    }
    val query = readSource(from)
    if (other.isEmpty || !from.isWithCuts) checkStopped(from, refused)
    checkProvider(from, query, refused)
    if (other.isEmpty && query.partitions != partitionsNow(from, query) && !from.isWithCuts) {
      refused(
        s"it had ${query.partitions} partitions after epoch ${query.epoch}, and has others now; " +
          "without cuts only epochs since then can be gone back to"
      )
    }
    // A copy may keep its partitions.
    partitions.filter(_ == query.partitions && other.isEmpty).foreach { n =>
      refused(s"it has $n partitions already")
    }
    if (other.exists(_.isWithCuts.contains(true)) && providerAfter(query) != Cleancut) {
      refused(
        s"cuts commit Cleancut's state only, and its state is to be that of ${providerAfter(query)}"
      )
    }
    for (_ <- partitions; of <- query.operators.find(!PartitionOfKey.isKnown(_)))
      refused(s"where the keys of operator ${of.id} (${of.name}) belong is not known")
    if (partitions.isDefined || edit.isDefined) query.checkPartitioning(refused)
    for (sink <- fileSink; why <- new SparkFileSink(from.session, sink).problem(query.epoch))
      refused(why)
    val target = targetOf(from, query)
    if (other.exists(_.access.nonEmpty) && !OfflinePlace.isInBucket(target.place.location)) {
      refused(s"${target.place.location} is in no bucket, and how a bucket is reached was given")
    }
    target.check(providerAfter(query), Some(from.location), refused)
    query.checkInFlight(from, refused) { bytes =>
      if (!target.place.isWithCuts) Some("which only cuts can hold")
      else Option.when(partitions.nonEmpty && bytes > MaxInFlightBytes)(s"of $bytes bytes")
    }
    edit.foreach(of => editable(from, query)(of.of).check(of.rows, refused))
    (query, target)
  }

  /** The state that is asked for, or of a plan that is executed, the state that was planned. */
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
      case ("edit", _)     => s"cleancut.edit('${from.location}', …)"
      case (_, Some(of))   => s"cleancut clone ${from.location} ${of.target}$options"
      case ("rollback", _) =>
        planned.fold("")(of => s"cleancut rollback ${from.location} --to-epoch ${of.source}")
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
      refused("its epochs are committed by cuts, which only Cleancut makes; the way out is a copy")
    }
    if (to == query.providerClass) refused(s"its state is that of $to already")
    if (to != Cleancut && query.providerClass != Cleancut) {
      refused(s"its state is that of ${query.providerClass}, and not Cleancut's")
    }
  }

  /** The number after its last epoch. */
  private def partitionsNow(from: OfflinePlace, query: StoredQuery): Int =
    if (!query.isBack) query.partitions
    else lookedAt(from).partitions

  private def lookedAt(from: OfflinePlace): StoredQuery =
    StoredQuery.read(from, name, OfflineSource.Last, isCopied = false, isLookedAt = true)
}

/**
 * The checkpoint that a clone makes.
 *
 * @param target
 *   its location, which must be empty
 * @param isOtherQuery
 *   whether it is to be of a query of its own
 * @param isWithCuts
 *   whether cuts are to commit its epochs; as in the checkpoint that it is made of, if that is not
 *   said
 * @param access
 *   how its store is reached, by the names of keys; as the session says, if nothing is said
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

  /** The run of the query, in whichever session of the application it was started. */
  private def running(from: OfflinePlace): Option[UUID] =
    from.session.sharedState.activeStreamingQueries.values.asScala
      .collectFirst {
        case of if new Path(of.resolvedCheckpointRoot).toString == from.location => of.runId
      }

  private[operations] def checkStopped(from: OfflinePlace, refused: String => Nothing): Unit =
    running(from).foreach { run =>
      refused(s"the query runs in this application (run $run); stop it first")
    }

  private[cleancut] val Cleancut = ClassNames.StateStoreProvider

  /** Of rows in flight that go to other partitions, through the driver; compressed. */
  private val MaxInFlightBytes = 256L << 20

  /** RocksDB is the only provider of Spark that supports every operator. */
  private val Providers = Map(
    "cleancut" -> Cleancut,
    "rocksdb" -> "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
  )

  /**
   * The class of a state store provider.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OPERATION_REFUSED, no provider has this name
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

  /** Goes on from an earlier state. */
  def rollback(to: OfflineSource): OfflineOperation = OfflineOperation("rollback", source = to)

  /** Rows of the state after the last epoch, as they can be edited. */
  def state(session: SparkSession, location: String, of: StateRows): DataFrame = {
    val from = OfflinePlace.of(session, location, "edit")
    val query = StoredQuery.read(from, "edit", OfflineSource.Last, isCopied = false)
    there(from, query).frame(OfflineOperation("edit").editable(from, query)(of))
  }

  private def there(from: OfflinePlace, query: StoredQuery): RowsThere = {
    val stores = from.stores(query.confOf(from.session))
    val conf = from.session.sparkContext.broadcast(new SerializableConfiguration(from.hadoopConf))
    val version = query.epoch + 1
    val read =
      new OfflineStores(version, version, stores, stores, OfflinePlace.newId(), conf, query.access)
    new RowsThere(from.session, read, StateRewrite.tasksOf(query))
  }

  /** Puts rows in the place of others. */
  def edit(of: StateRows, rows: DataFrame): OfflineOperation =
    OfflineOperation("edit", edit = Some(OfflineEdit(of, rows)))

  /** Makes another checkpoint of one of its states. */
  def copy(of: OfflineSource, to: CloneTarget): OfflineOperation =
    OfflineOperation("clone", source = of, other = Some(to))
}

/**
 * What an operation does, or has done.
 *
 * @param operation
 *   its name
 * @param target
 *   the location of the checkpoint that it makes, if it makes one
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
 * @param copiesRows
 *   whether the rows of the state are written anew, and not referred to
 * @param missingFiles
 *   the number of input files that the query has to read again and that do not exist any more
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
    missingFiles: Int = 0
) {

  private[operations] def withInput(input: InputCheck): OfflinePlan =
    copy(notes = notes ++ input.notes, missingFiles = input.missing.fold(0)(_.paths.size))

  /** With the rows that were written; none where none had to be. */
  private[operations] def done(written: Seq[Written]): OfflinePlan = {
    val rows = written
      .collect { case of: Rewritten => of }
      .groupMapReduce(_.operator)(_.sum.rows)(_ + _)
    copy(operators = operators.map(of => of.copy(rows = Some(rows.getOrElse(of.id, 0L)))))
  }
}

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

  object Operator {

    /** Before it is done. */
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
