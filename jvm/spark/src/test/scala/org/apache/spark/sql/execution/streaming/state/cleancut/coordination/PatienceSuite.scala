package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import scala.concurrent.duration._

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.Clock
import io.cleancut.conf.{Keys, Settings}
import io.cleancut.objectstore.RootedStore
import io.cleancut.objectstore.locations.ObjectStores

/** How long a task waits for the response of its coordinator, which waits for the store. */
class PatienceSuite extends AnyFunSuite {
  private def patience(timeout: String): FiniteDuration = {
    val confs = Map(Keys.RequestTimeout.name -> timeout, Keys.S3Region.name -> "eu-west-1")
    val settings = Settings.from(confs).objectStore
    val store = ObjectStores.open("s3://bucket", settings, fail("no file system"), Clock.System)
    try CutsClient.patience(new RootedStore(store.counted, "q/").requestTimeoutMs).duration
    finally store.close()
  }

  test("a task's timeout exceeds that of the coordinator's request, whatever that is") {
    assert(patience("1h") > 1.hour)
    assert(patience("10m") > 10.minutes)
    assert(patience("1s") == 2.minutes)
  }
}
