package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.RawLocalFileSystem
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.CleancutFileSystem

/** The implementation of the scheme of a checkpoint on an object store. */
class CheckpointSchemeSuite extends AnyFunSuite {

  private def registered(impl: Option[String]): Option[String] = {
    val conf = new Configuration(false)
    impl.foreach(conf.set("fs.s3.impl", _))
    CheckpointScheme.register(conf)
    Option(conf.get("fs.s3.impl"))
  }

  test("it is registered if there is no other implementation") {
    assert(registered(None).contains(classOf[CleancutFileSystem].getName))
    assert(registered(Some(classOf[CleancutFileSystem].getName)).isDefined)
  }

  test("another implementation is kept, even if it cannot be loaded") {
    for (other <- Seq(classOf[RawLocalFileSystem].getName, "com.example.MissingFileSystem"))
      assert(registered(Some(other)).contains(other))
  }
}
