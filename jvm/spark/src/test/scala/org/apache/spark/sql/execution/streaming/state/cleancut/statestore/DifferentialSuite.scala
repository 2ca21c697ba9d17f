package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import scala.util.Random

import Providers._
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.state._

import io.cleancut.testkit.Draws

/**
 * Randomized operations on Cleancut and on Spark's two providers in one JVM. Each result, each
 * version and the rows that a new provider loads must be equal.
 */
class DifferentialSuite extends AnyFunSuite {
  private val State = "org.apache.spark.sql.execution.streaming.state"
  private val Subjects = Seq(
    "io.cleancut.CleancutStateStoreProvider",
    s"$State.HDFSBackedStateStoreProvider",
    s"$State.RocksDBStateStoreProvider"
  )

  for (encoder <- Seq(Plain, ByPrefix))
    test(s"the three providers agree on randomized operations, ${encoder.getClass.getSimpleName}") {
      var operations = 0
      for (seed <- 1 to Draws.of(6)) withClue(s"seed $seed: ") {
        operations += new Run(seed.toLong, encoder).agree()
      }
      info(s"$operations operations on each provider")
    }

  final private class Run(seed: Long, encoder: KeyStateEncoderSpec) {
    private val random = new Random(seed)
    private val setups = Subjects.map(_ => Providers.setup().copy(encoder = encoder))
    private var providers = open()
    private var version = 0L
    private var operations = 0

    def agree(): Int = {
      for (_ <- 0 until 25) {
        epoch()
        if (random.nextInt(5) == 0) restart()
        if (random.nextInt(4) == 0) providers.foreach(_.doMaintenance())
      }
      providers.foreach(_.close())
      operations
    }

    private def open(): Seq[StateStoreProvider] =
      setups.zip(Subjects).map { case (setup, name) => setup.open(name) }

    private def restart(): Unit = {
      providers.foreach(_.close())
      providers = open()
    }

    private def epoch(): Unit = {
      val stores = providers.map(_.getStore(version))
      for (_ <- 0 until random.nextInt(60)) operation(stores)
      same(stores)(rowsAndKeys)
      if (random.nextInt(6) == 0) stores.foreach(_.abort())
      else {
        stores.foreach(_.commit())
        same(stores)(_.metrics.numKeys)
        version += 1
      }
    }

    private def operation(stores: Seq[StateStore]): Unit = {
      operations += 1
      val k = key(random.nextInt(25).toLong, "x" * random.nextInt(20))
      random.nextInt(10) match {
        case n if n < 5 =>
          val v = value(random.nextInt(1000).toLong)
          stores.foreach(_.put(k, v))
        case n if n < 7 => stores.foreach(_.remove(k))
        case n if n < 9 => same(stores)(store => Option(store.get(k)).map(_.getLong(0)))
        case _          =>
          if (encoder eq ByPrefix) {
            val p = prefix(random.nextInt(25).toLong)
            same(stores)(_.prefixScan(p).map(describe).toSeq.sorted)
          } else same(stores)(_.keyExists(k))
      }
    }

    private def rowsAndKeys(store: StateStore): Seq[String] =
      store.iterator().map(describe).toSeq.sorted

    private def describe(pair: UnsafeRowPair): String =
      s"${pair.key.getLong(0)} ${pair.key.getString(1)} ${pair.value.getLong(0)}"

    private def same[A](stores: Seq[StateStore])(read: StateStore => A): Unit = {
      val answers = stores.map(read)
      assert(answers.distinct.size == 1, answers.mkString("\n"))
      ()
    }
  }
}
