package io.cleancut.sequence

import scala.collection.mutable
import scala.util.Random

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.error.CleancutException
import io.cleancut.testkit.Seeded

/** Compares runs of a key with the model, and checks invariants of the emitted rows. */
class SequenceRunSuite extends AnyFunSuite with Seeded {

  test("randomized epochs have the results of the model") {
    var skipped, failed, overdue, dropped, held = 0L
    forSeeds(4000) { random =>
      val rules = randomRules(random)
      val model = new SequenceModel(rules)
      val key = new Key(rules)
      val epochs = randomEpochs(random, rules)
      val emitted = mutable.Buffer.empty[EmittedRow]
      val isCut = random.nextBoolean()
      val ends = epochs.iterator.takeWhile { case (rows, nowMs) =>
        val expected = attempt(model.epoch(rows, nowMs))
        val cutAt = if (isCut) random.nextInt(rows.size + 1) else rows.size
        val result = attempt(key.epoch(rows, nowMs, cutAt))
        assert(result == expected)
        result.foreach { epoch =>
          emitted ++= epoch.rows
          skipped += epoch.gaps
          dropped += epoch.dropped
          if (epoch.isOverdue) overdue += 1
          assert(key.heldNumbers == model.heldNumbers)
          held += key.heldNumbers.size
        }
        if (result.isLeft) failed += 1
        result.isRight
      }
      ends.foreach(_ => ())
      checkOrder(emitted.toSeq)
      checkNothingLost(key, epochs, emitted.toSeq)
    }
    info(s"$skipped skipped gaps, $failed failures, $overdue overdue, $dropped dropped")
    assert(Seq(skipped, failed, overdue, dropped, held).forall(_ > 0))
  }

  test("without gaps every number is emitted once and in order, whatever the order of arrival") {
    forSeeds(400) { random =>
      val rules = SequenceRules(isDense = true, Some(1), None, OnGap.Wait, 100000)
      val key = new Key(rules)
      val numbers = 1L to random.between(1, 300)
      val twice = random.shuffle(numbers ++ numbers.filter(_ => random.nextInt(10) == 0))
      val emitted =
        twice.grouped(random.between(1, 40)).zipWithIndex.flatMap { case (some, epoch) =>
          key.epoch(some.map(dense(_, epoch)), epoch).rows
        }
      assert(emitted.toSeq == numbers.map(EmittedRow(_, None)))
      assert(key.progress.dropped == twice.size - numbers.size)
      assert(key.heldNumbers.isEmpty)
    }
  }

  test("a gap is not due while rows of the key are in flight") {
    val key = new Key(SequenceRules(isDense = true, Some(1), Some(10), OnGap.Skip, 10))
    assert(key.epoch(Seq(dense(1, 0), dense(4, 0)), 0).rows == Seq(EmittedRow(1, None)))
    // Row 3 is in flight when row 2 has been processed, and the gap is due.
    val closing = key.epoch(Seq(dense(2, 20), dense(3, 20)), 20, cutAt = 1)
    assert(closing.rows == Seq(2L, 3L, 4L).map(EmittedRow(_, None)))
    assert(closing.gaps == 0 && closing.dropped == 0)
  }

  test("rows that arrive in order access no held row") {
    val key = new Key(SequenceRules(isDense = true, None, Some(1000), OnGap.Skip, 10))
    key.epoch(Seq(dense(5, 0)), 0)
    key.epoch(Nil, 1000)
    val before = key.accesses
    assert(key.epoch((6L to 500L).map(dense(_, 1001)), 1001).rows.size == 495)
    assert(key.accesses == before)
  }

  test("closing a gap does not scan the rows held after the next gap") {
    val key = new Key(SequenceRules(isDense = true, Some(1), None, OnGap.Wait, 10000))
    key.epoch((3L to 2000L).map(dense(_, 0)), 0)
    val before = key.accesses
    assert(key.epoch(Seq(dense(2, 1)), 1).rows.isEmpty)
    assert(key.accesses - before <= 2)
    assert(key.epoch(Seq(dense(1, 2)), 2).rows.size == 2000)
  }

  test("a row whose predecessor is not the last number is refused") {
    val key = new Key(SequenceRules(isDense = false, None, None, OnGap.Wait, 10))
    key.epoch(Seq(Numbered(10, KeyProgress.None, 0), Numbered(20, 10, 0)), 0)
    for (broken <- Seq(Numbered(30, 10, 1), Numbered(30, KeyProgress.None, 1), Numbered(30, 30, 1)))
      assert(attempt(key.epoch(Seq(broken), 1)) == Left("CLEANCUT_SEQUENCE_BROKEN"))
    assert(key.epoch(Seq(Numbered(30, 20, 2)), 2).rows == Seq(EmittedRow(30, None)))
  }

  private def randomRules(random: Random): SequenceRules = {
    val isDense = random.nextBoolean()
    SequenceRules(
      isDense,
      Option.when(isDense && random.nextBoolean())(1L),
      Option.when(random.nextInt(4) > 0)(random.between(1, 400).toLong),
      OnGap.all(random.nextInt(3)),
      random.between(1, 30)
    ) match {
      case rules if rules.timeoutMs.isEmpty && rules.onGap == OnGap.Fail =>
        rules.copy(onGap = OnGap.Wait)
      case rules => rules
    }
  }

  /** Rows almost in order, some duplicated or missing, in epochs with times. */
  private def randomEpochs(random: Random, rules: SequenceRules): Seq[(Seq[Numbered], Long)] = {
    val count = random.between(1, 120)
    val step = if (rules.isDense) 1 else 7
    val numbers = (1L to count.toLong).map(_ * step)
    val lossy = if (random.nextBoolean()) 0 else random.between(1, 10)
    val far = random.between(1, 40)
    val sent = numbers
      .filter(_ => lossy == 0 || random.nextInt(20) >= lossy)
      .flatMap(n => Seq.fill(if (random.nextInt(10) == 0) 2 else 1)(n))
      .map(n => n -> (n + random.nextInt(far) * step))
      .sortBy(_._2)
      .map(_._1)
    var now = 0L
    sent.grouped(random.between(1, 30)).toSeq.flatMap { some =>
      now += random.between(0, 300)
      val rows = some.map { number =>
        val previous =
          if (rules.isDense) number - 1
          else if (number == step) KeyProgress.None
          else number - step
        Numbered(number, previous, now)
      }
      if (random.nextInt(4) == 0) {
        val timer = now + random.between(0, 500)
        val both = Seq(rows -> now, Nil -> timer)
        now = timer
        both
      } else Seq(rows -> now)
    }
  }

  private def checkOrder(emitted: Seq[EmittedRow]): Unit =
    emitted.zip(emitted.drop(1)).foreach { case (before, after) =>
      assert(before.number < after.number)
      after.gapAfter.foreach(number => assert(number == before.number))
    }

  /** Every row that arrived is emitted, held or counted as dropped. */
  private def checkNothingLost(
      key: Key,
      epochs: Seq[(Seq[Numbered], Long)],
      emitted: Seq[EmittedRow]
  ): Assertion = {
    val arrived = epochs.map(_._1.size).sum
    assert(
      !key.hasNotFailed || emitted.size + key.heldNumbers.size + key.progress.dropped == arrived
    )
  }

  private def dense(number: Long, atMs: Long): Numbered = Numbered(number, number - 1, atMs)

  private def attempt(epoch: => EpochResult): Either[String, EpochResult] =
    try Right(epoch)
    catch {
      case failure: CleancutException => Left(failure.errorId)
      case MustFail(id)               => Left(id)
    }

  /** A key that is run epoch by epoch. A failed epoch is undone. */
  final private class Key(rules: SequenceRules) {
    var progress: KeyProgress = KeyProgress.begun(rules)
    private var rows = mutable.Map.empty[Long, Numbered]
    var accesses, failures = 0

    def hasNotFailed: Boolean = failures == 0
    def heldNumbers: Seq[Long] = rows.keys.toSeq.sorted

    def epoch(input: Seq[Numbered], nowMs: Long): EpochResult = epoch(input, nowMs, input.size)

    /** Rows from `cutAt` on are in flight first. */
    def epoch(input: Seq[Numbered], nowMs: Long, cutAt: Int): EpochResult = {
      val kept = rows.clone()
      val before = copied
      try {
        val (first, inFlight) = input.sortBy(_.number).splitAt(cutAt)
        if (inFlight.isEmpty) run(first, nowMs)
        else run(first, nowMs, hasInFlight = true) ++ run(inFlight, nowMs)
      } catch {
        case failure: CleancutException =>
          failures += 1
          rows = kept
          progress = before
          throw failure
      }
    }

    private def run(
        sorted: Seq[Numbered],
        nowMs: Long,
        hasInFlight: Boolean = false
    ): EpochResult = {
      val run = new SequenceRun[Numbered](
        rules,
        progress,
        store,
        sorted.iterator,
        reading,
        nowMs,
        () => hasInFlight,
        () => "k"
      )
      val emitted = mutable.Buffer.empty[EmittedRow]
      while (run.advance()) emitted += EmittedRow(run.row.number, run.gapBefore.map(_.after))
      run.dueMs.foreach(due => assert(due > nowMs))
      assert(run.dueMs.isDefined == (rules.timeoutMs.isDefined && rows.nonEmpty))
      assert(progress.held == rows.size)
      progress.prune()
      EpochResult(emitted.toSeq, run.newlyDropped, run.newGaps, run.isOverdue)
    }

    private def copied: KeyProgress = {
      val current = progress
      import current._
      new KeyProgress(last, held, lowest, awaited, highest, dropped, gaps, timerMs, marks)
    }

    private object store extends HeldRows[Numbered] {
      override def put(number: Long, row: Numbered): Unit = {
        access(())
        require(rows.put(number, row).isEmpty)
      }
      override def has(number: Long): Boolean = access(rows.contains(number))
      override def get(number: Long): Numbered = access(rows(number))
      override def remove(number: Long): Unit = {
        access(())
        require(rows.remove(number).isDefined)
      }
      override def numbers: Iterator[Long] = access(rows.keys.toSeq.iterator)
    }

    private object reading extends SequencedRows[Numbered] {
      override def number(row: Numbered): Long = row.number
      override def previous(row: Numbered): Long = row.previous
      override def since(row: Numbered): Long = row.atMs
    }

    private def access[A](value: A): A = {
      accesses += 1
      value
    }
  }
}
