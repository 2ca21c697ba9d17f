package org.apache.spark.sql.execution.streaming.state.cleancut.operations.start

import scala.util.control.NonFatal

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored._
import org.apache.spark.sql.internal.SQLConf

import io.cleancut.error.Errors

/**
 * What differs between a query and the checkpoint that it is to be started on.
 *
 * @param kind
 *   one of [[StartFinding.Refused]], [[StartFinding.Kept]], [[StartFinding.Changed]]
 * @param subject
 *   an operator, the sources, or a setting
 * @param advice
 *   what can be done about it; empty where nothing needs to be
 */
final case class StartFinding(kind: String, subject: String, what: String, advice: String)

object StartFinding {

  /** Spark does not start the query. */
  val Refused = "refused"

  /** It starts, and goes by the checkpoint. */
  val Kept = "kept"

  /** It starts, and what it does is other than before. */
  val Changed = "changed"
}

/**
 * @param epoch
 *   the last that is committed there
 * @param operators
 *   ids and names of the query's stateful operators; none where Spark cannot plan it at all
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
 * Finds what would become of a query on a checkpoint, and starts nothing: Spark plans its first
 * epoch beside copies of the checkpoint's own descriptions of operators and schemas, with all the
 * checks that it makes then. It names the first thing only that it does not like; so the query is
 * planned on nothing as well, and what it would have is compared with what is there.
 */
final private[operations] class StartCheck(session: SparkSession, query: PlannedStart, at: String) {
  import StartCheck._
  import StartFinding._

  private val from = OfflinePlace.of(session, at, Act)

  private val stored =
    StoredQuery.read(from, Act, OfflineSource.Last, isCopied = false, isLookedAt = true)

  def run(): StartVerdict = {
    if (!query.isStreaming) {
      throw Errors.operationRefused(Act, from.location, "the DataFrame is not a streaming one")
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
      now.map(of => of.id -> of.name),
      compared ++ sources ++ said ++ settings ++ watermark
    )
  }

  /** What its operators would be by themselves, or with what Spark refuses it. */
  private def planned: Either[String, Seq[StoredOperator]] =
    refusable(query.operators(session, stored.recorded, stored.confOf(session)))

  /** With what Spark refuses it after the epochs that there are. */
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
      (key, own) <- stored.recorded.conf.toSeq.sorted
      if SQLConf.containsConfigKey(key)
      here = conf.getConfString(key, own)
      if here != own
    } yield StartFinding(
      Kept,
      key,
      s"it is $own for this query, and $here in this session",
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
          s"it stands at ${stored.recorded.batchWatermarkMs} ms, and the query has none any more",
          "State that was to be dropped by it stays; call withWatermark again to have it dropped."
        )
      )
}

object StartCheck {
  private val Act = "check_compatibility"

  /**
   * @param mode
   *   the output mode, in Spark's words
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CHECKPOINT_NOT_FOUND, CLEANCUT_OPERATION_REFUSED: it is no streaming query, or there
   *   is no epoch that one could go on from
   */
  def run(session: SparkSession, location: String, query: DataFrame, mode: String): StartVerdict =
    new StartCheck(session, new PlannedStart(query, mode), location).run()
}

/** Where the operators of a query are other than those that a checkpoint describes. */
private[operations] object OperatorChanges {
  import StartFinding._

  /**
   * @param isRefused
   *   whether Spark refuses the query; it lets some schemas change, as those of state variables
   */
  def between(
      before: Seq[StoredOperator],
      now: Seq[StoredOperator],
      isRefused: Boolean
  ): Seq[StartFinding] = {
    val (old, own) = (before.map(of => of.id -> of).toMap, now.map(of => of.id -> of).toMap)
    (old.keySet ++ own.keySet).toSeq.sorted.flatMap { id =>
      (old.get(id), own.get(id)) match {
        case (Some(of), None) =>
          Seq(other(id, s"it is a ${of.name} in the checkpoint, and the query has none"))
        case (None, Some(of)) =>
          Seq(other(id, s"it is a ${of.name}, of which the checkpoint has no state"))
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
    "Spark knows stateful operators by their numbers, from the sink back to the sources; have " +
      "them in that order again, or go on in another checkpoint: migrate(location, target, query)."
  )

  private def stores(before: StoredOperator, now: StoredOperator, kind: String) = {
    val (old, own) = (before.families, now.families)
    val gone = old.map(_._1).diff(own.map(_._1)).map(_ -> "is gone from the query")
    val fresh = own.map(_._1).diff(old.map(_._1)).map(_ -> "is new in the query")
    val changed = for {
      (rows, a) <- old
      b <- own.toMap.get(rows).toSeq
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
      "Keep what the state is made of as it was, or go on in another checkpoint: " +
        "migrate(location, target, query, state)."
}
