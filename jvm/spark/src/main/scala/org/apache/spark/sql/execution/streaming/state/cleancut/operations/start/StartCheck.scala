package org.apache.spark.sql.execution.streaming.state.cleancut.operations.start

import scala.util.control.NonFatal

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored._
import org.apache.spark.sql.internal.SQLConf

import io.cleancut.error.Errors

/**
 * A difference between a query and the checkpoint on which it would start.
 *
 * @param kind
 *   one of [[StartFinding.Refused]], [[StartFinding.Kept]], [[StartFinding.Changed]]
 * @param subject
 *   an operator, the sources, or a setting
 * @param advice
 *   the action to take; empty if none is required
 */
final case class StartFinding(kind: String, subject: String, what: String, advice: String)

object StartFinding {

  /** Spark does not start the query. */
  val Refused = "refused"

  /** Spark starts the query and uses the value of the checkpoint. */
  val Kept = "kept"

  /** Spark starts the query, and it behaves differently than before. */
  val Changed = "changed"
}

/**
 * The result of a check.
 *
 * @param epoch
 *   last committed epoch of the checkpoint
 * @param operators
 *   ids and names of the query's stateful operators; empty if Spark cannot plan the query
 */
final case class StartVerdict(
    location: String,
    epoch: Long,
    operators: Seq[(Long, String)],
    findings: Seq[StartFinding]
) {
  def isCompatible: Boolean = !findings.exists(_.kind == StartFinding.Refused)
}

/**
 * Checks what happens if a query starts on a checkpoint, without starting it. Spark plans its first
 * epoch on copies of the checkpoint's descriptions of operators and schemas, with all checks of a
 * start. Spark reports only the first problem, so the query is also planned without a checkpoint,
 * and the result is compared with the descriptions.
 */
final private[operations] class StartCheck(session: SparkSession, query: PlannedStart, at: String) {
  import StartCheck._
  import StartFinding._

  private val from = OfflinePlace.of(session, at, Act)

  private val stored =
    StoredQuery.read(from, Act, OfflineSource.Last, isCopied = false, isInspection = true)

  def run(): StartVerdict = {
    if (!query.isStreaming) {
      throw Errors.operationRefused(Act, from.location, "the DataFrame is not streaming")
    }
    val anew = planned
    val now = anew.getOrElse(Nil)
    val refused = anew.left.toOption.orElse(refusal)
    val compared =
      if (anew.isLeft) Nil
      else OperatorChanges.between(stored.operators, now, isRefused = refused.isDefined)
    val explained = (compared ++ sources).exists(_.kind == Refused)
    val said = refused.filterNot(_ => explained).map { why =>
      StartFinding(Refused, "the query", why, "")
    }
    StartVerdict(
      from.location,
      stored.last,
      now.map(operator => operator.id -> operator.name),
      compared ++ sources ++ said ++ settings ++ watermark
    )
  }

  /** The operators that the query has by itself, or Spark's reason to refuse it. */
  private def planned: Either[String, Seq[StoredOperator]] =
    refusable(query.operators(session, stored.recorded, stored.confOf(session)))

  /** Spark's reason to refuse the query after the epochs of the checkpoint. */
  private def refusal: Option[String] = refusable {
    val epoch = stored.last + 1
    val epochs = (epoch.toString +: NewCheckpoint.namesIn(from, "offsets")).distinct
    PlannedStart.inScratch(session, epochs) { place =>
      NewCheckpoint.copySchemas(place, from, stored)
      NewCheckpoint.copyDescriptions(place, from, stored)
      query.run(place, epoch, stored.recorded, stored.confOf(session))
    }
  }.left.toOption

  private def refusable[A](body: => A): Either[String, A] =
    try Right(body)
    catch { case NonFatal(e) => Left(Option(e.getMessage).getOrElse(e.toString)) }

  private def sources: Seq[StartFinding] = SourceChanges.between(stored.offsets, query)

  private def settings: Seq[StartFinding] = {
    val conf = session.sessionState.conf
    for {
      (key, recorded) <- stored.recorded.conf.toSeq.sorted
      if SQLConf.containsConfigKey(key)
      here = conf.getConfString(key, recorded)
      if here != recorded
    } yield StartFinding(
      Kept,
      key,
      s"it is $recorded for this query, and $here in this session",
      adviceOn(key, here)
    )
  }

  private def adviceOn(key: String, here: String): String =
    if (key == SQLConf.SHUFFLE_PARTITIONS.key) s"rescale(location, $here) changes it."
    else if (key == SQLConf.STATE_STORE_PROVIDER_CLASS.key) {
      if (from.isWithCuts)
        "clone(location, target, provider=…) creates a checkpoint with another one."
      else "convert(location, provider=…) changes it."
    } else ""

  private def watermark: Seq[StartFinding] =
    if (query.hasWatermark || stored.recorded.batchWatermarkMs <= 0) Nil
    else
      Seq(
        StartFinding(
          Changed,
          "watermark",
          s"it is at ${stored.recorded.batchWatermarkMs} ms, and the query has no watermark",
          "State that the watermark would remove stays; call withWatermark to remove it."
        )
      )
}

object StartCheck {
  private val Act = "check_compatibility"

  /**
   * @param mode
   *   output mode as in Spark's API
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CHECKPOINT_NOT_FOUND; CLEANCUT_OPERATION_REFUSED if it is not a streaming query, or
   *   if there is no epoch that it could resume from
   */
  def run(session: SparkSession, location: String, query: DataFrame, mode: String): StartVerdict =
    new StartCheck(session, new PlannedStart(query, mode), location).run()
}

/** Differences between the operators of a query and those that a checkpoint describes. */
private[operations] object OperatorChanges {
  import StartFinding._

  /**
   * @param isRefused
   *   whether Spark refuses the query; it allows changes of some schemas, such as those of state
   *   variables
   */
  def between(
      before: Seq[StoredOperator],
      now: Seq[StoredOperator],
      isRefused: Boolean
  ): Seq[StartFinding] = {
    val (old, current) = (
      before.map(operator => operator.id -> operator).toMap,
      now.map(operator => operator.id -> operator).toMap
    )
    (old.keySet ++ current.keySet).toSeq.sorted.flatMap { id =>
      (old.get(id), current.get(id)) match {
        case (Some(operator), None) =>
          Seq(other(id, s"it is a ${operator.name} in the checkpoint, and the query has none"))
        case (None, Some(operator)) =>
          Seq(other(id, s"it is a ${operator.name}, of which the checkpoint has no state"))
        case (Some(a), Some(b)) if a.name != b.name =>
          Seq(other(id, s"it is a ${a.name} in the checkpoint, and a ${b.name} in the query"))
        case (Some(a), Some(b)) => stores(a, b, if (isRefused) Refused else Changed)
        case _                  => Nil
      }
    }
  }

  private def other(id: Long, what: String) = StartFinding(
    Refused,
    s"operator $id",
    what,
    "Spark identifies stateful operators by their numbers, from the sink back to the sources; " +
      "restore that order, or use another checkpoint: migrate(location, target, query)."
  )

  private def stores(before: StoredOperator, now: StoredOperator, kind: String) = {
    val (old, current) = (before.families, now.families)
    val gone = old.map(_._1).diff(current.map(_._1)).map(_ -> "is missing in the query")
    val fresh = current.map(_._1).diff(old.map(_._1)).map(_ -> "is new in the query")
    val changed = for {
      (rows, a) <- old
      b <- current.toMap.get(rows).toSeq
      (which, one, another) <- a.differences(b)
    } yield rows -> s"has the $which ${one.toDDL} in the checkpoint, and ${another.toDDL} now"
    (changed ++ gone ++ fresh).map { case (StateRows(_, store, family), what) =>
      val name = if (family == "default") s"store '$store'" else s"family '$family'"
      StartFinding(kind, s"operator ${before.id}", s"its $name $what", adviceOn(kind))
    }
  }

  private def adviceOn(kind: String) =
    if (kind != Refused) ""
    else
      "Restore the original definition of the state, or use another checkpoint: " +
        "migrate(location, target, query, state)."
}
