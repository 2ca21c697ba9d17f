package io.cleancut.objectstore

import java.net.URI
import java.nio.charset.StandardCharsets.UTF_8

import software.amazon.awssdk.regions.Region
import software.amazon.awssdk.services.s3.S3Client
import software.amazon.awssdk.services.s3.model.GetObjectRequest

import io.cleancut.base.Clock
import io.cleancut.objectstore.locations.ObjectStores
import io.cleancut.objectstore.s3.Dialect
import io.cleancut.testkit.S3Server

/**
 * The main class of a process with Cleancut's jar and another AWS SDK on its class path; both
 * access one bucket. It is compiled against Cleancut's SDK and runs with the other one.
 */
object ClashCheck {
  private val Version = "software.amazon.awssdk.core.util.VersionInfo"

  def main(args: Array[String]): Unit = {
    val endpoint = args(0)
    println(s"other SDK ${versionOf(Version)}")
    println(s"our SDK ${versionOf(s"io.cleancut.shaded.$Version")}")
    val settings = S3TestStore.settings(endpoint, Dialect.Generic)
    val location = s"s3://${S3Server.Bucket}/clash"
    // Opened as a query does it, so that this class does not refer to the shaded SDK.
    val store = ObjectStores.open(location, settings, sys.error("no Hadoop here"), Clock.System)
    try {
      new WriteProbe(store, Clock.System).run()
      store.put(ObjectKey("a"), "ours".getBytes(UTF_8))
    } finally store.close()
    if (readByOther(endpoint) == "ours") println("written by ours, read by the other")
  }

  private def readByOther(endpoint: String): String = {
    val client = S3Client
      .builder()
      .endpointOverride(URI.create(endpoint))
      .region(Region.US_EAST_1)
      .forcePathStyle(true)
      .build()
    val request = GetObjectRequest.builder().bucket(S3Server.Bucket).key("clash/a").build()
    try client.getObjectAsBytes(request).asString(UTF_8)
    finally client.close()
  }

  private def versionOf(name: String): String =
    Class.forName(name).getField("SDK_VERSION").get(null).toString
}
