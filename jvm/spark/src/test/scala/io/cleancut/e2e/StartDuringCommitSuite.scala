package io.cleancut.e2e

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.CleancutCheckpointFileManager
import io.cleancut.conf.Keys
import io.cleancut.objectstore.{ObjectKey, ObjectPrefix, S3TestStore}

/** A start whose checks list the logs and the cuts while another run commits. */
class StartDuringCommitSuite extends AnyFunSuite with RestartedQuery {

  test("a start is not refused if another run commits while the checks list the logs") {
    run(epochs = 3)
    proxy.reset()
    val store = S3TestStore.open(server.endpoint, location)
    try {
      val names = store.list(ObjectPrefix.All).map(_.key.name).toSeq
      val last = Seq(
        names.filter(_.matches("offsets/\\d+")).maxBy(_.stripPrefix("offsets/").toLong),
        names.filter(_.endsWith(".cut")).max
      ).map(ObjectKey(_)).map(key => key -> store.get(key).get)
      store.delete(last.map(_._1))
      @volatile var isWritten = false
      proxy.watch { request =>
        if (!isWritten && request.target.contains("prefix=started%2Fcleancut%2Fcuts")) {
          def isListed = proxy.timedRequests.exists(_.request.target.contains("started%2Foffsets"))
          while (!isListed) Thread.sleep(5)
          last.foreach { case (key, body) => store.put(key, body) }
          isWritten = true
        }
      }
      val conf = new Configuration
      conf.set(Keys.S3Endpoint.name, endpoint)
      conf.set(Keys.S3Region.name, "us-east-1")
      val path = new Path(location)
      assert(new CleancutCheckpointFileManager(path, conf).createCheckpointDirectory() == path)
      assert(isWritten)
    } finally store.close()
    run(epochs = 1)
  }
}
