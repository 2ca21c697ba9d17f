package io.cleancut.objectstore

import io.cleancut.base.Clock
import io.cleancut.error.CleancutException
import io.cleancut.objectstore.locations.ObjectStores
import io.cleancut.objectstore.s3.Dialect
import io.cleancut.testkit.S3Server

/** The main class of a process that opens the bucket at an endpoint, and says what came of it. */
object TlsCheck {
  val Sound = "the store is sound"
  val Retries = "retries: "

  def main(args: Array[String]): Unit = {
    val location = s"s3://${S3Server.Bucket}/tls"
    val settings = S3TestStore.settings(args(0), Dialect.Generic)
    val store = ObjectStores.open(location, settings, sys.error("no Hadoop here"), Clock.System)
    try {
      new WriteProbe(store, Clock.System).run()
      println(Sound)
    } catch {
      case e: CleancutException =>
        println(e.getMessage)
        println(s"$Retries${store.counts.retries}")
    } finally store.close()
  }
}
