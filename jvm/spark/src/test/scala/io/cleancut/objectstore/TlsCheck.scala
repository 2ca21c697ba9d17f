package io.cleancut.objectstore

import io.cleancut.base.Clock
import io.cleancut.error.CleancutException
import io.cleancut.objectstore.locations.ObjectStores
import io.cleancut.objectstore.s3.Dialect
import io.cleancut.testkit.S3Server

/** The main class of a process that probes the bucket at an endpoint and prints the result. */
object TlsCheck {
  val Passed = "the store passed the probe"
  val Retries = "retries: "

  def main(args: Array[String]): Unit = {
    val location = s"s3://${S3Server.Bucket}/tls"
    val settings = S3TestStore.settings(args(0), Dialect.Generic)
    val store = ObjectStores.open(location, settings, sys.error("no Hadoop here"), Clock.System)
    try {
      new WriteProbe(store, Clock.System).run()
      println(Passed)
    } catch {
      case e: CleancutException =>
        println(e.getMessage)
        println(s"$Retries${store.counts.retries}")
    } finally store.close()
  }
}
