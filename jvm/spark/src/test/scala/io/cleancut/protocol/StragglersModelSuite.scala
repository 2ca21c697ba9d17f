package io.cleancut.protocol

import java.util.concurrent.TimeUnit.MILLISECONDS

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.StoreId
import io.cleancut.conf.CaptureMode
import io.cleancut.format.Channels
import io.cleancut.testkit.Seeded

/** Compares [[Stragglers]] with a reference that sorts all durations for each task at each tick. */
class StragglersModelSuite extends AnyFunSuite {
  import StragglersModelSuite._

  private val Runs = 300
  private val Steps = 150

  test("a randomized epoch has the stragglers of the reference") {
    var overtaken = 0
    for (seed <- 0 until Runs)
      withClue(s"seed $seed: ")(overtaken += run(Seeded.random(seed.toLong)))
    assert(overtaken > Runs, "the runs overtake too few attempts to show anything")
  }

  /** Returns the number of attempts that were overtaken. */
  private def run(random: Random): Int = {
    val (stragglers, reference) = (new Stragglers, new Reference)
    val taken = mutable.Set.empty[Long]
    val partitions = 1 + random.nextInt(8)
    val operators = 1 + random.nextInt(3)
    val started = mutable.ArrayBuffer.empty[(Long, StoreId)]
    var nowNs = random.nextInt(1000).toLong

    def start(attempt: Long, channel: StoreId): Unit = {
      stragglers.started(attempt, channel, partitions, nowNs)
      reference.started(attempt, channel, partitions, nowNs)
      started += attempt -> channel
      ()
    }
    def channel() = StoreId(
      random.nextInt(operators).toLong,
      random.nextInt(partitions),
      Channels.name(random.nextInt(2))
    )
    def end(attempt: Long): Unit = {
      stragglers.endAttempt(attempt)
      reference.endAttempt(attempt)
    }
    def known = started(random.nextInt(started.size))

    for (step <- 0 until Steps) {
      nowNs += MILLISECONDS.toNanos(random.nextInt(120).toLong)
      random.nextInt(if (started.isEmpty) 1 else 100) match {
        case n if n < 30 => start(step.toLong, channel())
        case n if n < 35 => start(known._1, channel())
        case n if n < 40 => (start _).tupled(known)
        case n if n < 65 =>
          val (attempt, channel) = known
          stragglers.arrived(attempt, channel, nowNs)
          reference.arrived(attempt, channel, nowNs)
        case n if n < 70 => end(known._1)
        case 70          =>
          // An executor is lost.
          val executor = random.nextInt(Executors)
          started.map(_._1).distinct.filter(_ % Executors == executor).foreach(end)
        case 71 if random.nextInt(4) == 0 =>
          stragglers.cutNow(nowNs)
          reference.cutNow(nowNs)
        case _ =>
          val mode = random.nextInt(4) match {
            case 0 => CaptureMode.Aligned
            case 1 => CaptureMode.Unaligned
            case _ => CaptureMode.Auto(MILLISECONDS.toNanos(random.nextInt(500).toLong))
          }
          assert(stragglers.tick(mode, nowNs) == reference.tick(mode, nowNs), s"step $step, $mode")
      }
      withClue(s"step $step: ") {
        assert(stragglers.overtaken == reference.passed.keySet)
        for (attempt <- started.map(_._1))
          assert(stragglers.overtakenNs(attempt) == reference.passed.get(attempt))
        assert(stragglers.lastOnTimeNs == reference.lastOnTime)
        assert(stragglers.isRunning == reference.running.nonEmpty)
        if (random.nextBoolean()) {
          val news = stragglers.takeOvertaken()
          assert(news.distinct == news && !news.exists(taken), "an attempt was returned before")
          taken ++= news
          assert(taken == reference.passed.keySet)
        }
      }
    }
    reference.passed.size
  }
}

object StragglersModelSuite {
  private val Executors = 3
  private val MarginNs = MILLISECONDS.toNanos(200)

  final private class Running(val operator: Long, val partition: Int, val startNs: Long) {
    val channels = mutable.Set.empty[String]
  }

  /** The rules of [[Stragglers]] without an index. */
  final private class Reference {
    val running = mutable.LinkedHashMap.empty[Long, Running]
    val passed = mutable.LinkedHashMap.empty[Long, Long]
    var lastOnTime = Option.empty[Long]
    private val durations = mutable.Map.empty[Long, mutable.Map[Int, Long]]
    private val partitionsOf = mutable.Map.empty[Long, Int]
    private val since = mutable.Map.empty[Long, Long]
    private var cutNs = Option.empty[Long]

    def started(attempt: Long, channel: StoreId, partitions: Int, nowNs: Long): Unit = {
      val StoreId(operator, partition, name) = channel
      running.getOrElseUpdate(attempt, new Running(operator, partition, nowNs)).channels += name
      partitionsOf(operator) = partitions
      cutNs.foreach(passed.getOrElseUpdate(attempt, _))
    }

    def arrived(attempt: Long, channel: StoreId, nowNs: Long): Unit =
      running.get(attempt).foreach { task =>
        task.channels -= channel.name
        if (task.channels.isEmpty) {
          durations
            .getOrElseUpdate(task.operator, mutable.Map.empty)
            .getOrElseUpdate(task.partition, nowNs - task.startNs)
          if (!passed.contains(attempt)) lastOnTime = Some(nowNs)
          endAttempt(attempt)
        }
      }

    def endAttempt(attempt: Long): Unit = {
      running -= attempt
      since -= attempt
      ()
    }

    def cutNow(nowNs: Long): Unit = {
      cutNs = cutNs.orElse(Some(nowNs))
      running.keys.foreach(passed.getOrElseUpdate(_, nowNs))
    }

    def tick(mode: CaptureMode, nowNs: Long): Boolean = {
      val before = passed.size
      for ((attempt, task) <- running if !passed.contains(attempt) && isLate(task, nowNs)) {
        val first = since.getOrElseUpdate(attempt, nowNs)
        val isDue = mode match {
          case CaptureMode.Aligned         => false
          case CaptureMode.Unaligned       => true
          case CaptureMode.Auto(timeoutNs) => nowNs - first >= timeoutNs
        }
        if (isDue) passed(attempt) = nowNs
      }
      passed.size > before
    }

    private def isLate(task: Running, nowNs: Long): Boolean = {
      val sorted = durations.get(task.operator).toSeq.flatMap(_.values).sorted
      sorted.nonEmpty && sorted.size * 2 >= partitionsOf(task.operator) && {
        val median = sorted(sorted.size / 2)
        nowNs - task.startNs > Math.max(2 * median, median + MarginNs)
      }
    }
  }
}
