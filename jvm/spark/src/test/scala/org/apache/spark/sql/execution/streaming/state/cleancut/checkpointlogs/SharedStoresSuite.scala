package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.objectstore.{BucketPath, S3TestStore}
import io.cleancut.objectstore.s3.Dialect

/** No request is sent, so there is no server. */
class SharedStoresSuite extends AnyFunSuite {
  private val settings = S3TestStore.settings("http://127.0.0.1:1", Dialect.Generic)

  private def enclosing(location: String) =
    SharedStores.around(BucketPath.parse(location), settings)

  test("requests below a checkpoint are counted with it, and with the innermost of two") {
    val bucket = SharedStores.ofBucket("shared", settings)
    assert(enclosing("s3://shared/q") eq bucket)
    val outer = SharedStores.ofCheckpoint(BucketPath.parse("s3://shared/q"), settings)
    val inner = SharedStores.ofCheckpoint(BucketPath.parse("s3://shared/q/inner"), settings)
    assert((outer ne bucket) && (outer ne inner))
    assert(SharedStores.ofCheckpoint(BucketPath.parse("s3://shared/q"), settings) eq outer)
    for (path <- Seq("s3://shared/q", "s3://shared/q/offsets", "s3://shared/q/sources/0"))
      assert(enclosing(path) eq outer, path)
    assert(enclosing("s3://shared/q/inner/offsets") eq inner)
    for (path <- Seq("s3://shared/q2/offsets", "s3://shared/innermost", "s3://shared"))
      assert(enclosing(path) eq bucket, path)
    assert(enclosing("s3://elsewhere/q") ne outer)
  }

  test("requests of a query's own directory are counted with its checkpoint") {
    val root = SharedStores.rootInBucket(new Path("s3://shared/mine"), settings).get
    assert(root.location == "s3://shared/mine/cleancut")
    assert((root.counted ne root) && root.counted.location == root.location)
    assert(enclosing("s3://shared/mine/offsets") ne SharedStores.ofBucket("shared", settings))
    assert(SharedStores.rootInBucket(new Path("file:/mine"), settings).isEmpty)
  }
}
