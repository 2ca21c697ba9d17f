package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import java.util.concurrent.TimeUnit

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.SharedStores

import io.cleancut.CleancutCheckpointFileManager
import io.cleancut.base.Clock
import io.cleancut.conf.Keys
import io.cleancut.objectstore.{
  Leftovers,
  MultipartUpload,
  ObjectKey,
  ObjectPrefix,
  ObjectStore,
  RequestKind,
  RootedStore,
  S3TestStore,
  WriterToken
}
import io.cleancut.testkit.{Fault, HttpMessage, ManualClock, ProxiedServer, S3Server}

/** Remains of killed processes are deleted at a later start of the query. */
class LeftoversSuite extends AnyFunSuite with ProxiedServer {
  private var store: ObjectStore = _
  private val location = s"s3://${S3Server.Bucket}/swept/q"

  override protected def beforeAll(): Unit = {
    super.beforeAll()
    store = S3TestStore.open(endpoint, location)
  }

  override protected def afterAll(): Unit = {
    store.close()
    bucket.close()
    super.afterAll()
  }

  private lazy val bucket = S3TestStore.open(endpoint, s"s3://${S3Server.Bucket}")

  private def begin(name: String): Unit = {
    val upload =
      store.upload(ObjectKey(name), MultipartUpload.MinPartBytes, WriterToken.fresh(Clock.System))
    upload.part(1, Array(1))
  }

  private def listed: Set[String] = store.list(ObjectPrefix.All).map(_.key.name).toSet

  private def countUnfinished(): Int = store.dropUnfinished(Clock.System.wallMs() + 3600 * 1000)

  private def isUploadList(request: HttpMessage): Boolean =
    request.method == "GET" && request.target.contains("uploads")

  test("a day later remains are deleted, and complete objects are kept") {
    Seq("a", "probe-1/plain").foreach(name => store.put(ObjectKey(name), Array(1)))
    begin("b")
    new Leftovers(store, Clock.System).run()
    assert(listed == Set("a", "probe-1/plain"))
    new Leftovers(store, Later(Leftovers.MinAgeMs + 60000)).run()
    assert(listed == Set("a") && countUnfinished() == 0)
  }

  test("younger uploads are kept, because they may still be in progress") {
    store.put(ObjectKey("probe-2/plain"), Array(1))
    begin("c")
    new Leftovers(store, Later(Leftovers.MinAgeMs - 60000)).run()
    assert(listed("probe-2/plain") && countUnfinished() == 1)
  }

  test("a long-running query checks once a day, and only below its root") {
    val clock = new ManualClock {
      private val startMs = Clock.System.wallMs()
      override def wallMs(): Long = startMs + super.wallMs()
    }
    val root = new RootedStore(store, "own/")
    def upload(store: ObjectStore, name: String) =
      store.upload(ObjectKey(name), MultipartUpload.MinPartBytes, WriterToken.fresh(Clock.System))
    val leftovers = new Leftovers(root, clock)
    upload(root, "segments/a")
    upload(store, "others/a")
    def looks(): Long = {
      val before = store.counts(RequestKind.ListUploads).requests
      leftovers.runIfDue()
      store.counts(RequestKind.ListUploads).requests - before
    }
    assert(looks() == 0)
    clock.advance(25, TimeUnit.HOURS)
    assert(looks() == 1 && looks() == 0)
    assert(root.dropUnfinished(Clock.System.wallMs() + 3600 * 1000) == 0)
    assert(countUnfinished() == 1)
  }

  private def manager(): CleancutCheckpointFileManager = {
    val conf = new Configuration
    conf.set(Keys.S3Endpoint.name, endpoint)
    conf.set(Keys.S3Region.name, "us-east-1")
    new CleancutCheckpointFileManager(new Path(location), conf)
  }

  private def isProbe(request: HttpMessage): Boolean =
    request.method == "PUT" && request.target.contains("/probe-")

  test("a start probes its bucket once in a process, and does not search for remains itself") {
    def starts(): (Int, Int) = {
      proxy.reset()
      manager().createCheckpointDirectory()
      (proxy.requests.count(isProbe), proxy.requests.count(isUploadList))
    }
    SharedStores.forgetProbes()
    val (probes, searches) = starts()
    assert(probes > 0 && searches == 0)
    assert(starts() == ((0, 0)))
  }

  test("a bucket that has not passed the probe is probed again at the next start") {
    SharedStores.forgetProbes()
    proxy.reset()
    val refused = proxy.harm(Fault.Answer(403, "AccessDenied"))(isProbe)
    intercept[IllegalArgumentException](manager().createCheckpointDirectory())
    assert(refused.strikes == 1)
    proxy.reset()
    manager().createCheckpointDirectory()
    assert(proxy.requests.count(isProbe) > 1)
  }

  test("a run continues although uploads cannot be listed, and the refusal is not retried") {
    val refusals = Seq(Fault.Answer(403, "AccessDenied"), Fault.Answer(501, "NotImplemented"))
    for (refusal <- refusals) {
      proxy.reset()
      val harm = proxy.harm(refusal, times = 10)(isUploadList)
      LeftoverScan.start(bucket, new Path(location), isOver = false).get(1, TimeUnit.MINUTES)
      assert(harm.strikes == 1)
    }
  }

  test("the search for remains ends with its run") {
    begin("d")
    proxy.reset()
    LeftoverScan.start(bucket, new Path(location), isOver = true).get(1, TimeUnit.MINUTES)
    assert(proxy.requests.isEmpty)
    LeftoverScan.start(bucket, new Path(location), isOver = false).get(1, TimeUnit.MINUTES)
    assert(proxy.requests.count(isUploadList) == 1)
    assert(proxy.requests.forall(_.target.contains("swept%2Fq%2F")))
  }
}

/** The system's clock with an offset. */
final private case class Later(byMs: Long) extends Clock {
  override def wallMs(): Long = Clock.System.wallMs() + byMs
  override def monotonicNs(): Long = Clock.System.monotonicNs()
  override def randomBytes(count: Int): Array[Byte] = Clock.System.randomBytes(count)
  override def sleep(duration: Long, unit: TimeUnit): Unit = Clock.System.sleep(duration, unit)
}
