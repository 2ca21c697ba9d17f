package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.util.concurrent.{Callable, Executors, TimeUnit}

import scala.util.Random

import Providers._
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.SparkKeyOrder
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import io.cleancut.engine.memory.Memory
import io.cleancut.format.frame.FamilySchema
import io.cleancut.testkit.Patience

/**
 * Epochs with many blocks, which other threads compress and copy while tasks write, fail and end.
 */
class BusyEpochsSuite extends AnyFunSuite {
  test("stores have exactly the committed rows after tasks fail and abort between blocks") {
    val threads = Executors.newFixedThreadPool(4)
    try {
      val stores = for (seed <- 1 to 8) yield {
        val work: Callable[Unit] = () => epochs(new Random(seed))
        threads.submit(work)
      }
      stores.foreach(_.get(Patience.Seconds, TimeUnit.SECONDS))
    } finally threads.shutdown()
  }

  test("epochs that change each key three times leave no garbage") {
    val setup = Providers.setup()
    val provider = setup.open()
    val count = 5000L
    var peak = 0L
    for (version <- 0L until 30L) {
      val store = provider.getStore(version)
      for (round <- 0L until 3L; id <- 0L until count)
        store.put(key(id), value(id + version * 10 + round))
      store.commit()
      peak = Math.max(peak, store.metrics.memoryUsedBytes)
    }
    val expected = (0L until count).map(id => id -> (id + 292)).toMap
    val store = provider.getReadStore(30)
    assert(rows(store) == expected)
    store.release()
    provider.close()
    assert(rowsAt(setup, 30) == expected)
    // 5,000 rows of 80 bytes; 30 epochs without compaction would take 36 MB.
    assert(peak < (24L << 20), s"peak was $peak bytes")
  }

  test("prefixes of fixed-length columns are distinguished, including nulls") {
    val schema = StructType(
      Seq(StructField("a", IntegerType), StructField("b", DoubleType), StructField("c", LongType))
    )
    val spec = PrefixKeyScanStateEncoderSpec(schema, 2)
    val family = FamilySchema(0, "f", schema.json, ValueSchema.json, spec.json)
    val order = SparkKeyOrder.of(family, Memory.access, None).get
    val keyOf = UnsafeProjection.create(schema)
    val prefixOf = UnsafeProjection.create(StructType(schema.take(2)))
    val columns = for {
      a <- Seq[Any](null, 0, 1, -1)
      b <- Seq[Any](null, 0.0, -0.0, Double.NaN)
    } yield (a, b)
    for ((a, b) <- columns; (otherA, otherB) <- columns) {
      val wanted = prefixOf(InternalRow(a, b)).copy()
      val candidate = keyOf(InternalRow(otherA, otherB, 5L)).copy()
      // Spark compares rows by their bytes.
      val isSame = prefixOf(InternalRow(otherA, otherB)) == wanted
      assert(order.prefixStretch(wanted).accepts(candidate) == isSame, s"$a $b $otherA $otherB")
    }
  }

  private def epochs(random: Random): Unit = {
    val setup = Providers.setup()
    // A projection is not thread-safe.
    val keyOf = UnsafeProjection.create(KeySchema)
    val valueOf = UnsafeProjection.create(ValueSchema)
    var provider = setup.open()
    var version = 0L
    var expected = Map.empty[Long, Long]
    for (attempt <- 1L to 12L) {
      val task = new Tasks.Attempt(attempt)
      val store = task(provider.getStore(version))
      var changed = expected
      // About 100 bytes each, so zero to eight blocks.
      for (_ <- 0 until random.nextInt(10000)) {
        val id = random.nextInt(4000).toLong
        val key = keyOf(InternalRow(id, UTF8String.fromString("n")))
        task(store.put(key, valueOf(InternalRow(attempt, 0.5))))
        changed += id -> attempt
      }
      random.nextInt(4) match {
        case 0 => task.fail(new IllegalStateException("killed"))
        case 1 =>
          task(store.abort())
          task.complete()
        case _ =>
          version = task(store.commit())
          task.complete()
          expected = changed
      }
      if (random.nextInt(4) == 0) {
        provider.close()
        provider = setup.open()
      }
    }
    provider.close()
    assert(rowsAt(setup, version) == expected)
    ()
  }
}
