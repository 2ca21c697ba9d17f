package io.cleancut.history

import scala.collection.mutable

import io.cleancut.format.cut.ShareCosts

/**
 * Explains why epochs take longer than earlier ones. Pure; for one run, whose epochs are passed in
 * order.
 *
 * An epoch is slow if it takes more than twice the median of the last epochs and 200 ms more, from
 * the start of its trigger until its cut is written and the owner checked. The time beyond the
 * median must be explained. Causes are checked in an order in which an earlier cause would also
 * look like a later one: a task that retries its requests is also a straggler, and slow uploads
 * make all tasks slow. The first cause that explains half of the time counts.
 */
final class SlowEpochs {
  import SlowEpochs._

  private val recent = mutable.Queue.empty[EpochRecord]
  private var runOf = Option.empty[String]
  private val inFlight = new InFlightWatch
  @volatile private var latestTally = SlowTally.None

  /** The tally of the judged epochs; may be called by any thread. */
  def tally: SlowTally = latestTally

  /** The same record, with its cause if it was slow. */
  def judge(record: EpochRecord): EpochRecord = {
    val isFirst = !runOf.contains(record.run.runId)
    if (isFirst) {
      recent.clear()
      inFlight.clear()
    }
    runOf = Some(record.run.runId)
    val judged =
      record.copy(slow = reason(record), growth = inFlight.add(record.rowsInFlight))
    judged.slow.foreach(why => latestTally = latestTally.and(record.epoch, why))
    // The first epoch of a run is not comparable with others.
    if (!isFirst && record.durationMs.isDefined) {
      recent += record
      if (recent.size > Remembered) recent.dequeue()
    }
    judged
  }

  private def reason(record: EpochRecord): Option[SlowReason] = for {
    took <- record.tookMs
    typical <- Option.when(recent.size >= Fewest)(median(recent.flatMap(_.tookMs)))
    if isSlow(took, typical)
  } yield {
    val toExplain = (took - typical) * Share
    val reasons: Seq[() => Option[(String, String)]] = Seq(
      () => executorLost(record),
      () => driverPause(record, toExplain),
      () => retries(record, toExplain),
      () => commit(record, toExplain),
      () => upload(record, toExplain),
      () => straggler(record, toExplain),
      () => input(record, took, typical),
      () => phase(record, toExplain)
    )
    val cause = reasons.iterator.flatMap(_()).nextOption()
    val (kind, detail) = cause.getOrElse(Unknown -> unknown(record))
    SlowReason(typical, kind, detail)
  }

  private def executorLost(record: EpochRecord) = {
    val health = record.health
    Option.when(health.executorsLost.nonEmpty && health.repeatedTasks > 0) {
      val lost = health.executorsLost.map { case (id, why) => s"executor $id ($why)" }
      ExecutorLost -> (s"${lost.mkString("; ")} was lost, and ${health.repeatedTasks} task " +
        "attempts were repeated")
    }
  }

  private def driverPause(record: EpochRecord, toExplain: Double) =
    Option.when(record.health.pauseMs >= toExplain) {
      DriverPause -> s"the driver was paused for ${record.health.pauseMs} ms by garbage collection"
    }

  private def retries(record: EpochRecord, toExplain: Double) = record.costs.flatMap { costs =>
    val sides = Seq("the driver" -> costs.driver, "the executors" -> costs.executors)
    val (side, share) = sides.maxBy(_._2.waitedMs)
    Option.when(share.waitedMs >= toExplain) {
      val kinds = share.requests.filter(_._2.retries > 0).keys.toSeq.sorted.mkString(", ")
      Retries -> (s"$side retried ${share.total.retries} requests to the store ($kinds), and " +
        s"waited ${share.waitedMs} ms in total")
    }
  }

  /** Requests of many tasks overlap, so their times are only compared with each other. */
  private def upload(record: EpochRecord, toExplain: Double) = for {
    share <- record.costs.map(_.all)
    now <- pace(share)
    usual = recent.flatMap(_.costs).flatMap(costs => pace(costs.all)).sorted
    if usual.size >= Fewest
    typical = usual(usual.size / 2)
    if now * SlowTimes <= typical && share.sentMs - share.bytesSent / typical >= toExplain
  } yield Upload -> (s"uploads ran at ${perSecond(now)} instead of ${perSecond(typical)}: " +
    s"${share.bytesSent} bytes took ${share.sentMs} ms of all requests together")

  private def straggler(record: EpochRecord, toExplain: Double) = {
    val slowest = record.operators
      .filter(_.partitions > 1)
      .flatMap(operator =>
        operator.ms.indices.map(cell => (operator, cell, operator.ms(cell) - median(operator.ms)))
      )
    slowest.maxByOption(_._3).filter(_._3 >= toExplain).map { case (operator, cell, _) =>
      val first = cell * operator.perCell
      val last = Math.min(first + operator.perCell, operator.partitions) - 1
      val where = if (first == last) s"partition $first" else s"one of partitions $first to $last"
      val figures = Seq(
        skew(operator.rows, cell).map { case (actual, other) =>
          s"read $actual rows, but the median is $other"
        },
        skew(operator.bytes, cell).map { case (actual, other) =>
          s"wrote $actual bytes, but the median is $other"
        }
      ).flatten
      val why =
        if (figures.nonEmpty) s"it ${figures.mkString(" and ")}"
        else "it had no more rows than others"
      val at = record.costs.toSeq
        .flatMap(_.slowest)
        .find(time =>
          time.store.operator == operator.operator && time.store.partition >= first &&
            time.store.partition <= last
        )
        .filter(_.executor.nonEmpty)
        .fold("")(time => s" on executor ${time.executor} at ${time.host}")
      val name = record.stages.operatorName(operator.operator)
      Straggler -> (s"$where of $name$at took ${operator.ms(cell)} ms, " +
        s"but the median is ${median(operator.ms)} ms: $why")
    }
  }

  /** The value of a cell and the median of all, if it is much higher than that of others. */
  private def skew(values: Seq[Long], cell: Int): Option[(Long, Long)] = {
    val other = median(values)
    Option.when(values(cell) >= SlowTimes * Math.max(1L, other))(values(cell) -> other)
  }

  private def commit(record: EpochRecord, toExplain: Double) = {
    val commitMs = record.phaseMs(EpochPhase.Commit)
    Option.when(commitMs - usualMs(EpochPhase.Commit) >= toExplain) {
      val (part, ms) = CommitParts
        .map { case (phase, what) => what -> record.timings.getOrElse(phase, 0L) }
        .maxBy(_._2)
      Commit -> s"its commit took $commitMs ms, most of it $part ($ms ms)"
    }
  }

  /** More rows explain as much more time as the typical epoch takes for its rows. */
  private def input(record: EpochRecord, tookMs: Long, typicalMs: Long) = {
    val usual = median(recent.map(_.rows))
    val explainedMs = if (usual > 0) typicalMs.toDouble * record.rows / usual - typicalMs else 0.0
    val isMore = usual > 0 && record.rows >= InputTimes * usual
    Option.when(isMore && explainedMs >= (tookMs - typicalMs) * Share) {
      Input -> s"its tasks read ${record.rows} rows instead of $usual"
    }
  }

  /** The phase that explains most of the time. */
  private def phase(record: EpochRecord, toExplain: Double) = {
    val (longest, kind) = PhaseKinds.maxBy { case (phase, _) => beyondMs(record, phase) }
    Option.when(beyondMs(record, longest) >= toExplain) {
      val (ms, usual) = (record.phaseMs(longest), usualMs(longest))
      val stage = record.stages.longest(longest).filter(_.ms >= ms * Share).fold("") { stage =>
        s", most of it ${stage.description} (${stage.ms} ms)"
      }
      kind -> s"${PhaseTexts(kind)} took $ms ms instead of $usual ms$stage"
    }
  }

  private def unknown(record: EpochRecord) = {
    val phases = EpochPhase.All
      .map(phase => phase.name -> record.phaseMs(phase))
      .filter(_._2 > 0)
      .sortBy(-_._2)
      .map { case (name, ms) => s"$name $ms ms" }
    s"$UnknownDetail: ${phases.mkString(", ")}"
  }

  private def beyondMs(record: EpochRecord, phase: EpochPhase) =
    record.phaseMs(phase) - usualMs(phase)

  private def usualMs(phase: EpochPhase) = median(recent.map(_.phaseMs(phase)))
}

object SlowEpochs {
  val ExecutorLost = "executor-lost"
  val DriverPause = "driver-pause"
  val Retries = "retries"
  val Upload = "upload"
  val Straggler = "straggler"
  val Commit = "commit"
  val Input = "input"
  val Source = "source"
  val Planning = "planning"
  val MapSide = "map-side"
  val StateOperators = "state-operators"
  val Sink = "sink"
  val Unknown = "unknown"

  /** In the order in which they are checked. */
  val Kinds: Seq[String] =
    Seq(ExecutorLost, DriverPause, Retries, Commit, Upload, Straggler, Input) ++
      Seq(Source, Planning, MapSide, StateOperators, Sink, Unknown)

  private val PhaseKinds = Seq(
    EpochPhase.Source -> Source,
    EpochPhase.Planning -> Planning,
    EpochPhase.MapSide -> MapSide,
    EpochPhase.State -> StateOperators,
    EpochPhase.Sink -> Sink
  )

  private val PhaseTexts = Map(
    Source -> "polls of the sources for new rows",
    Planning -> "planning and the write of the offsets",
    MapSide -> "tasks before the state operators",
    StateOperators -> "tasks of the state operators",
    Sink -> "the sink"
  )

  /** The name of a kind in stored records, which differs from the public one for [[Commit]]. */
  private[history] def storedName(kind: String): String = if (kind == Commit) "gate" else kind

  private[history] def kindOf(storedName: String): String =
    if (storedName == "gate") Commit else storedName

  private[history] def isSlow(tookMs: Long, typicalMs: Long): Boolean =
    tookMs >= SlowTimes * typicalMs && tookMs >= typicalMs + SlowMs

  private val UnknownDetail = "no measured cause explains half of the time"

  /** Number of recent epochs: a minute or more of most queries. */
  private[history] val Remembered = 50
  private[history] val Fewest = 5
  private val SlowTimes = 2
  private val SlowMs = 200L
  private val InputTimes = 1.5
  private val Share = 0.5

  private val CommitParts = Seq(
    "collectMs" -> "for frames that were not durable yet",
    "ownerMs" -> "for the ownership check before the cut",
    "offsetsMs" -> "for the offsets of the epoch",
    "sealMs" -> "for the seal",
    "cutMs" -> "for the write of the cut",
    "checkMs" -> "for the ownership check after the cut"
  )

  /** Bytes per millisecond; None if too few bytes were sent for a comparison. */
  private def pace(share: ShareCosts): Option[Double] =
    Option.when(share.sentMs >= MinSentMs)(share.bytesSent.toDouble / share.sentMs)

  private val MinSentMs = 20L

  private def perSecond(bytesPerMs: Double) = f"${bytesPerMs / 1000}%.2f MB/s"

  private def median(numbers: collection.Seq[Long]): Long =
    if (numbers.isEmpty) 0L else numbers.sorted.apply(numbers.size / 2)
}
