package io.cleancut.bench.queries

import java.nio.file.Files

import io.cleancut.bench.base.Directories

/**
 * Compares the answers of a Nexmark query on each provider with the answer of a batch, and fails if
 * one differs. Argument: the query, as [[WholeQueries.argumentOf]] returns it.
 */
object NexmarkCheck {
  private val Events = 100000

  def main(args: Array[String]): Unit = {
    val query = WholeQueries.nexmark(args(0))
    val spark = QueryBench.session()
    val home = Files.createTempDirectory("cleancut-nexmark")
    val answer = new NexmarkAnswer(spark, query, Events, home)
    val expected = answer.ofBatch()
    require(expected.nonEmpty, s"${query.name} has no rows")
    for (provider <- QueryBench.providers(query)) {
      provider.confs.foreach { case (key, value) => spark.conf.set(key, value) }
      val actual = answer.ofStream(provider.name)
      def difference =
        s"missing ${expected.diff(actual).take(3)}, too many ${actual.diff(expected).take(3)}"
      require(actual == expected, s"${query.name} on ${provider.name}: $difference")
    }
    println(
      s"${query.name}\t${expected.size} rows of $Events events on each provider and in a batch"
    )
    Directories.deleteBelow(home)
    System.exit(0)
  }
}
