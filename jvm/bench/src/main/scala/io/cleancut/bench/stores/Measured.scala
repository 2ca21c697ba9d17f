package io.cleancut.bench.stores

import scala.collection.mutable

/** The rounds of a benchmark in one JVM, and their figures. */
final class Measured(rounds: Int) {
  private val WarmUps = 5
  private val lines = mutable.ArrayBuffer.empty[String]
  private var current = 0

  /** The number of this round; below 0 it warms up. */
  def round: Int = current

  def repeated(body: => Unit): Unit = for (r <- -WarmUps until rounds) {
    current = r
    body
  }

  def time(name: String)(body: => Unit): Unit = per(name, 1)(body)

  /** Records the nanoseconds of one of `count` equal operations. */
  def per(name: String, count: Int)(body: => Unit): Unit = {
    val start = System.nanoTime()
    body
    record(name, (System.nanoTime() - start) / count)
  }

  def record(name: String, number: Long): Unit =
    if (current >= 0) lines += s"$name\t$current\t$number"

  /** Prints one line `name<TAB>round<TAB>number` for each figure. */
  def print(): Unit = lines.foreach(println)
}
