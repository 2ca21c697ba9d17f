package io.cleancut.testkit

import java.nio.file.{Files, Path => NioPath}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.{BeforeAndAfterEach, Suite}

import io.cleancut.base.Clock
import io.cleancut.objectstore.ObjectStore
import io.cleancut.objectstore.hadoop.HadoopStore

/** A separate object store for each test, in a directory of the local disk. */
trait StoreOnDisk extends BeforeAndAfterEach { this: Suite =>
  protected var directory: NioPath = _
  protected var store: ObjectStore = _

  override protected def beforeEach(): Unit = {
    super.beforeEach()
    directory = Files.createTempDirectory("store")
    store = storeAt("")
  }

  /** Another object store below the directory. */
  protected def storeAt(name: String): ObjectStore =
    HadoopStore.open(new Path(directory.resolve(name).toUri), new Configuration, Clock.System)

  override protected def afterEach(): Unit =
    try TestDirectory.delete(directory)
    finally super.afterEach()
}
