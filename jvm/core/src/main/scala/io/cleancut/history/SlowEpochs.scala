package io.cleancut.history

import scala.collection.mutable

import io.cleancut.format.cut.ShareCosts

/**
 * Says of epochs that take longer than those before them why they do. Pure; for one run, whose
 * epochs it is to be shown one after the other.
 *
 * An epoch is slow that takes twice the median of the last ones, and 200 ms more. What it took
 * beyond that median is to be explained. The reasons are asked in an order in which an earlier one
 * would look like a later one, too: a task that repeats its requests is a straggler as well, and
 * uploads that are slow make all tasks slow. The first one counts that explains half of it.
 */
final class SlowEpochs {
  import SlowEpochs._

  private val recent = mutable.Queue.empty[EpochRecord]
  private var runOf = Option.empty[String]
  @volatile private var told = SlowTally.None

  /** Of the epochs that were judged; may be asked for by any thread. */
  def tally: SlowTally = told

  /** The same record, with its reason if it was slow. */
  def judge(record: EpochRecord): EpochRecord = {
    val isFirst = !runOf.contains(record.run.runId)
    if (isFirst) recent.clear()
    runOf = Some(record.run.runId)
    val judged = record.copy(slow = reason(record))
    judged.slow.foreach(why => told = told.and(record.epoch, why))
    // What a start takes is not what other epochs do.
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
      () => upload(record, toExplain),
      () => straggler(record, toExplain),
      () => commit(record, toExplain),
      () => input(record)
    )
    val found = reasons.iterator.flatMap(_()).nextOption()
    val (kind, detail) = found.getOrElse(Unknown -> UnknownDetail)
    SlowReason(typical, kind, detail)
  }

  private def executorLost(record: EpochRecord) = {
    val health = record.health
    Option.when(health.executorsLost.nonEmpty && health.repeatedTasks > 0) {
      val lost = health.executorsLost.map { case (id, why) => s"executor $id ($why)" }
      ExecutorLost -> (s"${lost.mkString("; ")} was lost, and ${health.repeatedTasks} task " +
        "attempts were made again")
    }
  }

  private def driverPause(record: EpochRecord, toExplain: Double) =
    Option.when(record.health.pauseMs >= toExplain) {
      DriverPause -> s"the driver stood still for ${record.health.pauseMs} ms to collect garbage"
    }

  private def retries(record: EpochRecord, toExplain: Double) = record.costs.flatMap { costs =>
    val sides = Seq("the driver" -> costs.driver, "the executors" -> costs.executors)
    val (side, share) = sides.maxBy(_._2.waitedMs)
    Option.when(share.waitedMs >= toExplain) {
      val kinds = share.requests.filter(_._2.retries > 0).keys.toSeq.sorted.mkString(", ")
      Retries -> (s"$side repeated ${share.total.retries} requests to the store ($kinds), and " +
        s"waited for that ${share.waitedMs} ms in all")
    }
  }

  /** Requests of many tasks overlap, so that their times are compared with each other alone. */
  private def upload(record: EpochRecord, toExplain: Double) = for {
    share <- record.costs.map(_.all)
    now <- pace(share)
    usual = recent.flatMap(_.costs).flatMap(of => pace(of.all)).sorted
    if usual.size >= Fewest
    typical = usual(usual.size / 2)
    if now * SlowTimes <= typical && share.sentMs - share.bytesSent / typical >= toExplain
  } yield Upload -> (s"uploads went at ${perSecond(now)}, where they go at ${perSecond(typical)} " +
    s"otherwise: ${share.bytesSent} bytes took ${share.sentMs} ms of all requests together")

  private def straggler(record: EpochRecord, toExplain: Double) = {
    val slowest = record.operators
      .filter(_.partitions > 1)
      .flatMap(of => of.ms.indices.map(cell => (of, cell, of.ms(cell) - median(of.ms))))
    slowest.maxByOption(_._3).filter(_._3 >= toExplain).map { case (of, cell, _) =>
      val first = cell * of.perCell
      val last = Math.min(first + of.perCell, of.partitions) - 1
      val where = if (first == last) s"partition $first" else s"one of partitions $first to $last"
      val figures = Seq(
        skew(of.rows, cell).map { case (own, other) =>
          s"read $own rows where the median is $other"
        },
        skew(of.bytes, cell).map { case (own, other) =>
          s"wrote $own bytes where the median is $other"
        }
      ).flatten
      val why =
        if (figures.nonEmpty) s"it ${figures.mkString(" and ")}"
        else "it had no more rows than others"
      val at = record.costs.toSeq
        .flatMap(_.slowest)
        .find(time =>
          time.store.operator == of.operator && time.store.partition >= first &&
            time.store.partition <= last
        )
        .filter(_.executor.nonEmpty)
        .fold("")(time => s" on executor ${time.executor} at ${time.host}")
      Straggler -> (s"$where of operator ${of.operator}$at took ${of.ms(cell)} ms, where the " +
        s"median is ${median(of.ms)} ms: $why")
    }
  }

  /** What a cell has and the median of all, if it is more than that of others. */
  private def skew(of: Seq[Long], cell: Int): Option[(Long, Long)] = {
    val other = median(of)
    Option.when(of(cell) >= SlowTimes * Math.max(1L, other))(of(cell) -> other)
  }

  private def commit(record: EpochRecord, toExplain: Double) = {
    def commitMs(of: EpochRecord) = of.gateMs + of.cutMs
    val beyond = commitMs(record) - median(recent.map(commitMs))
    Option.when(beyond >= toExplain) {
      val (part, ms) = GateParts
        .map { case (phase, what) => what -> record.timings.getOrElse(phase, 0L) }
        .maxBy(_._2)
      Commit -> s"its commit took ${commitMs(record)} ms, most of it $part ($ms ms)"
    }
  }

  private def input(record: EpochRecord) = {
    val usual = median(recent.map(_.rows))
    Option.when(usual > 0 && record.rows >= InputTimes * usual) {
      Input -> s"its tasks read ${record.rows} rows, where they read $usual otherwise"
    }
  }
}

object SlowEpochs {
  val ExecutorLost = "executor-lost"
  val DriverPause = "driver-pause"
  val Retries = "retries"
  val Upload = "upload"
  val Straggler = "straggler"
  val Commit = "commit"
  val Input = "input"
  val Unknown = "unknown"

  /** In the order in which they are asked. */
  val Kinds: Seq[String] =
    Seq(ExecutorLost, DriverPause, Retries, Upload, Straggler, Commit, Input, Unknown)

  /** The name of a kind in stored records, which differs from the public one for [[Commit]]. */
  private[history] def storedName(kind: String): String = if (kind == Commit) "gate" else kind

  private[history] def kindOf(storedName: String): String =
    if (storedName == "gate") Commit else storedName

  private[history] def isSlow(tookMs: Long, typicalMs: Long): Boolean =
    tookMs >= SlowTimes * typicalMs && tookMs >= typicalMs + SlowMs

  private val UnknownDetail = "none of what is measured explains half of it"

  /** A minute or more of most queries. */
  private[history] val Remembered = 50
  private[history] val Fewest = 5
  private val SlowTimes = 2
  private val SlowMs = 200L
  private val InputTimes = 1.5
  private val Share = 0.5

  private val GateParts = Seq(
    "collectMs" -> "for frames that were not durable yet",
    "ownerMs" -> "for the store to say who owns the query",
    "offsetsMs" -> "for the offsets of the epoch",
    "cutMs" -> "for the write of the cut"
  )

  /** Bytes a millisecond; None where too little was sent to tell. */
  private def pace(share: ShareCosts): Option[Double] =
    Option.when(share.sentMs >= MinSentMs)(share.bytesSent.toDouble / share.sentMs)

  private val MinSentMs = 20L

  private def perSecond(bytesPerMs: Double) = f"${bytesPerMs / 1000}%.2f MB/s"

  private def median(of: collection.Seq[Long]): Long =
    if (of.isEmpty) 0L else of.sorted.apply(of.size / 2)
}
