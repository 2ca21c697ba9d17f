package io.cleancut.sequence

import scala.collection.mutable
import scala.util.Random

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.error.CleancutException
import io.cleancut.testkit.Seeded

/** Runs of a key beside the model, and what must hold of what is handed on. */
class SequenceRunSuite extends AnyFunSuite with Seeded {

  test("drawn epochs give what the model gives") {
    var skipped, failed, overdue, dropped, held = 0L
    forSeeds(4000) { random =>
      val rules = drawRules(random)
      val model = new SequenceModel(rules)
      val key = new Key(rules)
      val epochs = drawEpochs(random, rules)
      val found = mutable.Buffer.empty[HandedOn]
      val isCut = random.nextBoolean()
      val ends = epochs.iterator.takeWhile { case (rows, nowMs) =>
        val expected = attempt(model.epoch(rows, nowMs))
        val cutAt = if (isCut) random.nextInt(rows.size + 1) else rows.size
        val result = attempt(key.epoch(rows, nowMs, cutAt))
        assert(result == expected)
        result.foreach { of =>
          found ++= of.rows
          skipped += of.gaps
          dropped += of.dropped
          if (of.isOverdue) overdue += 1
          assert(key.heldNumbers == model.heldNumbers)
          held += key.heldNumbers.size
        }
        if (result.isLeft) failed += 1
        result.isRight
      }
      ends.foreach(_ => ())
      checkOrder(found.toSeq)
      checkNothingLost(key, epochs, found.toSeq)
    }
    info(s"$skipped gaps given up, $failed failures, $overdue overdue, $dropped dropped")
    assert(Seq(skipped, failed, overdue, dropped, held).forall(_ > 0))
  }

  test("without gaps every number is handed on once and in order, whatever the order it came in") {
    forSeeds(400) { random =>
      val rules = SequenceRules(isDense = true, Some(1), None, OnGap.Wait, 100000)
      val key = new Key(rules)
      val numbers = 1L to random.between(1, 300)
      val twice = random.shuffle(numbers ++ numbers.filter(_ => random.nextInt(10) == 0))
      val found = twice.grouped(random.between(1, 40)).zipWithIndex.flatMap { case (some, epoch) =>
        key.epoch(some.map(dense(_, epoch)), epoch).rows
      }
      assert(found.toSeq == numbers.map(HandedOn(_, None)))
      assert(key.progress.dropped == twice.size - numbers.size)
      assert(key.heldNumbers.isEmpty)
    }
  }

  test("a gap is not judged while rows of the key are in flight") {
    val key = new Key(SequenceRules(isDense = true, Some(1), Some(10), OnGap.Skip, 10))
    assert(key.epoch(Seq(dense(1, 0), dense(4, 0)), 0).rows == Seq(HandedOn(1, None)))
    // Row 3 is in flight when row 2 has been processed, and the gap is due.
    val closing = key.epoch(Seq(dense(2, 20), dense(3, 20)), 20, cutAt = 1)
    assert(closing.rows == Seq(2L, 3L, 4L).map(HandedOn(_, None)))
    assert(closing.gaps == 0 && closing.dropped == 0)
  }

  test("rows that come in order touch nothing that is held") {
    val key = new Key(SequenceRules(isDense = true, None, Some(1000), OnGap.Skip, 10))
    key.epoch(Seq(dense(5, 0)), 0)
    key.epoch(Nil, 1000)
    val before = key.touched
    assert(key.epoch((6L to 500L).map(dense(_, 1001)), 1001).rows.size == 495)
    assert(key.touched == before)
  }

  test("a gap that is only just closed does not look at what is held behind the next") {
    val key = new Key(SequenceRules(isDense = true, Some(1), None, OnGap.Wait, 10000))
    key.epoch((3L to 2000L).map(dense(_, 0)), 0)
    val before = key.touched
    assert(key.epoch(Seq(dense(2, 1)), 1).rows.isEmpty)
    assert(key.touched - before <= 2)
    assert(key.epoch(Seq(dense(1, 2)), 2).rows.size == 2000)
  }

  test("a row that follows on a number that was passed is refused") {
    val key = new Key(SequenceRules(isDense = false, None, None, OnGap.Wait, 10))
    key.epoch(Seq(Numbered(10, KeyProgress.None, 0), Numbered(20, 10, 0)), 0)
    for (broken <- Seq(Numbered(30, 10, 1), Numbered(30, KeyProgress.None, 1), Numbered(30, 30, 1)))
      assert(attempt(key.epoch(Seq(broken), 1)) == Left("CLEANCUT_SEQUENCE_BROKEN"))
    assert(key.epoch(Seq(Numbered(30, 20, 2)), 2).rows == Seq(HandedOn(30, None)))
  }

  private def drawRules(random: Random): SequenceRules = {
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

  /** Rows near their order, some twice, some never, in epochs with times. */
  private def drawEpochs(random: Random, rules: SequenceRules): Seq[(Seq[Numbered], Long)] = {
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

  private def checkOrder(found: Seq[HandedOn]): Unit =
    found.zip(found.drop(1)).foreach { case (before, after) =>
      assert(before.number < after.number)
      after.gapAfter.foreach(number => assert(number == before.number))
    }

  /** All that came is handed on, held, or counted. */
  private def checkNothingLost(
      key: Key,
      epochs: Seq[(Seq[Numbered], Long)],
      found: Seq[HandedOn]
  ): Assertion = {
    val came = epochs.map(_._1.size).sum
    assert(!key.isWhole || found.size + key.heldNumbers.size + key.progress.dropped == came)
  }

  private def dense(number: Long, atMs: Long): Numbered = Numbered(number, number - 1, atMs)

  private def attempt(epoch: => EpochResult): Either[String, EpochResult] =
    try Right(epoch)
    catch {
      case failure: CleancutException => Left(failure.errorId)
      case MustFail(id)               => Left(id)
    }

  /** A key that is run epoch by epoch; one that has failed stays as it was before. */
  final private class Key(rules: SequenceRules) {
    var progress: KeyProgress = KeyProgress.begun(rules)
    private var rows = mutable.Map.empty[Long, Numbered]
    var touched, failures = 0

    def isWhole: Boolean = failures == 0
    def heldNumbers: Seq[Long] = rows.keys.toSeq.sorted

    def epoch(input: Seq[Numbered], nowMs: Long): EpochResult = epoch(input, nowMs, input.size)

    /** Rows from `cutAt` on are in flight at first. */
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
      val found = mutable.Buffer.empty[HandedOn]
      while (run.advance()) found += HandedOn(run.row.number, run.gapBefore.map(_.after))
      run.dueMs.foreach(due => assert(due > nowMs))
      assert(run.dueMs.isDefined == (rules.timeoutMs.isDefined && rows.nonEmpty))
      assert(progress.held == rows.size)
      progress.prune()
      EpochResult(found.toSeq, run.newlyDropped, run.newGaps, run.isOverdue)
    }

    private def copied: KeyProgress = {
      val of = progress
      import of._
      new KeyProgress(last, held, lowest, awaited, highest, dropped, gaps, timerMs, marks)
    }

    private object store extends HeldRows[Numbered] {
      override def put(number: Long, row: Numbered): Unit = {
        touch(())
        require(rows.put(number, row).isEmpty)
      }
      override def has(number: Long): Boolean = touch(rows.contains(number))
      override def get(number: Long): Numbered = touch(rows(number))
      override def remove(number: Long): Unit = {
        touch(())
        require(rows.remove(number).isDefined)
      }
      override def numbers: Iterator[Long] = touch(rows.keys.toSeq.iterator)
    }

    private object reading extends SequencedRows[Numbered] {
      override def number(row: Numbered): Long = row.number
      override def previous(row: Numbered): Long = row.previous
      override def since(row: Numbered): Long = row.atMs
    }

    private def touch[A](of: A): A = {
      touched += 1
      of
    }
  }
}
