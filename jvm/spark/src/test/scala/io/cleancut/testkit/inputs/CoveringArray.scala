package io.cleancut.testkit.inputs

import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable
import scala.util.Random

import io.cleancut.testkit.Seeded

/**
 * Selections for consecutive seeds. A cycle of `size` seeds has each possible pair of values, and
 * each cycle has other selections, so that long campaigns also have many combinations of more than
 * two values.
 *
 * @param size
 *   number of selections in a cycle
 * @param fixed
 *   values that a seed determines
 */
final class CoveringSelections(space: InputSpace, val size: Int, fixed: Long => Selection) {
  private val cycles = new ConcurrentHashMap[Long, IndexedSeq[Selection]]

  /** The least number of consecutive seeds that have a complete cycle, whichever is the first. */
  val enough: Int = 2 * size - 1

  def apply(seed: Long): Selection =
    cycle(Math.floorDiv(seed, size.toLong))(Math.floorMod(seed, size.toLong).toInt)

  private def cycle(number: Long): IndexedSeq[Selection] = cycles.computeIfAbsent(
    number,
    { number =>
      val first = number * size
      CoveringArray.rows(space, (0 until size).map(row => fixed(first + row)), number)
    }
  )
}

/**
 * A greedy array of selections in which each possible pair of values occurs: each begins with a new
 * pair.
 */
object CoveringArray {
  private val MostAttempts = 40

  /**
   * Completes the given selections. A greedy array may miss a pair, and another one is tried then.
   *
   * @throws IllegalStateException
   *   if they are too few for all pairs
   */
  def rows(space: InputSpace, fixed: Seq[Selection], seed: Long): IndexedSeq[Selection] = {
    val random = Seeded.random(seed)
    val attempts = Iterator.fill(MostAttempts) {
      val pairs = new Pairs(space)
      fixed.map(complete(space, pairs, _, random)).toIndexedSeq -> pairs.uncovered
    }
    val missing = mutable.Buffer.empty[Seq[String]]
    attempts
      .tapEach { case (_, uncovered) => missing += uncovered }
      .collectFirst { case (rows, uncovered) if uncovered.isEmpty => rows }
      .getOrElse {
        val least = missing.minBy(_.size).mkString(", ")
        throw new IllegalStateException(
          s"${space.generator}: ${fixed.size} selections do not have $least"
        )
      }
  }

  private def complete(
      space: InputSpace,
      pairs: Pairs,
      fixed: Selection,
      random: Random
  ): Selection = {
    val (first, others) = space.dimensions.partition(one => fixed.indices.contains(one.name))
    val begun = first.map(one => one.name -> fixed.indices(one.name))
    val row = Iterator
      .continually(random.shuffle(others))
      .take(MostAttempts)
      .flatMap { order =>
        val row = begun ++ pairs.drawUncovered(begun, random)
        attempt(order.filterNot(one => row.exists(_._1 == one.name)), row, pairs, random)
      }
      .nextOption()
      .getOrElse(throw new IllegalStateException(s"${space.generator}: no selection with $fixed"))
    pairs.cover(row)
    Selection(row.toMap)
  }

  /** Selects for each dimension the possible value with the most new pairs. */
  private def attempt(
      others: Seq[Dimension[_]],
      fixed: Seq[(String, Int)],
      pairs: Pairs,
      random: Random
  ): Option[Seq[(String, Int)]] = others.foldLeft(Option(fixed)) { (row, dimension) =>
    row.flatMap { before =>
      val possible =
        dimension.values.indices.filter(value => pairs.isPossible(before, dimension.name -> value))
      val gains = possible.map(value => value -> pairs.gain(before, dimension.name -> value)).toMap
      Option.when(possible.nonEmpty) {
        val most = gains.values.max
        val best = dimension.weighted.filter(value => gains.get(value).contains(most))
        before :+ (dimension.name -> best(random.nextInt(best.size)))
      }
    }
  }

  /** The pairs of a space, each of which is impossible, covered or neither. */
  final private class Pairs(space: InputSpace) {
    private val values = space.dimensions
      .flatMap(one => one.values.indices.map(one.name -> _))
      .toIndexedSeq
    private val numbers = values.zipWithIndex.toMap
    private val names = space.dimensions
      .flatMap(one => one.names.zipWithIndex.map { case (named, i) => (one.name, i) -> named })
      .toMap
    private val isImpossible = Array.ofDim[Boolean](numbers.size, numbers.size)
    private val isCovered = Array.ofDim[Boolean](numbers.size, numbers.size)

    for {
      rule <- space.impossible
      one <- numbersOf(rule.first)
      other <- numbersOf(rule.second)
      (a, b) <- Seq(one -> other, other -> one)
    } isImpossible(a)(b) = true

    private def numbersOf(condition: Condition): Seq[Int] = {
      val dimension = space.dimensions.find(_.name == condition.dimension).get
      condition.values.map(value => numbers(dimension.name -> dimension.names.indexOf(value)))
    }

    def isPossible(row: Seq[(String, Int)], value: (String, Int)): Boolean =
      row.forall(other => !isImpossible(numbers(other))(numbers(value)))

    def gain(row: Seq[(String, Int)], value: (String, Int)): Int =
      row.count(other => !isCovered(numbers(other))(numbers(value)))

    def cover(row: Seq[(String, Int)]): Unit =
      for (one <- row; other <- row) isCovered(numbers(one))(numbers(other)) = true

    /** A pair that is possible with a begun row and not covered, if there is one. */
    def drawUncovered(begun: Seq[(String, Int)], random: Random): Seq[(String, Int)] = {
      def isFree(value: (String, Int)) =
        !begun.exists(_._1 == value._1) && isPossible(begun, value)
      val free = uncoveredPairs.filter { case (one, other) => isFree(one) && isFree(other) }
      if (free.isEmpty) Nil
      else {
        val (one, other) = free(random.nextInt(free.size))
        Seq(one, other)
      }
    }

    private def uncoveredPairs: IndexedSeq[((String, Int), (String, Int))] = for {
      a <- values.indices
      b <- a + 1 until values.size
      if values(a)._1 != values(b)._1 && !isCovered(a)(b) && !isImpossible(a)(b)
    } yield values(a) -> values(b)

    def uncovered: Seq[String] = uncoveredPairs.map { case (one, other) =>
      s"${one._1} ${names(one)} with ${other._1} ${names(other)}"
    }
  }
}
