package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import Providers._
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.state._

/** The snapshot metrics that a store reports to Spark 4.1 and later. */
class BaseMetricsSuite extends AnyFunSuite {
  test("the metrics of a store have the version of its last base, or -1 without one") {
    val setup = Providers.setup().copy(partition = 3, name = "left")
    def versionsIn(metrics: StateStoreMetrics) =
      metrics.instanceMetrics.map { case (metric, version) => metric.name -> version }.toSeq
    val name = "SnapshotLastUploaded.partition_3_left"
    val provider = setup.open()
    val first = provider.getStore(0)
    first.put(key(1), value(1))
    assert(versionsIn(first.metrics) == Seq(name -> -1L))
    first.commit()
    assert(versionsIn(first.metrics) == Seq(name -> -1L))
    val second = VersionedStores.open(provider, 1, withBase = true)
    second.commit()
    assert(versionsIn(second.metrics) == Seq(name -> 2L))
    assert(commit(provider, 2, 2L -> 2L) == 3)
    provider.close()
    val fresh = setup.open()
    val read = fresh.getReadStore(3).asInstanceOf[StateStore]
    assert(versionsIn(read.metrics) == Seq(name -> 2L))
    read.release()
    fresh.close()
  }
}
