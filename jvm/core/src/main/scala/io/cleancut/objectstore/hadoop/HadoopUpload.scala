package io.cleancut.objectstore.hadoop

import scala.collection.immutable.SortedMap

import org.apache.hadoop.fs.{FSDataOutputStream, Path}

import io.cleancut.objectstore.{CreateResult, MultipartUpload, ObjectKey, PartSizes, RequestKind}

/**
 * An upload to a file system: one pending file to which the parts are written in order. Each part
 * waits in memory for the earlier ones, and there are at most as many parts as sending threads.
 */
final private[objectstore] class HadoopUpload(
    store: HadoopStore,
    key: ObjectKey,
    pending: HadoopUpload.Pending,
    empty: PartSizes
) extends MultipartUpload {
  private var sizes = empty
  private var waiting = SortedMap.empty[Int, Array[Byte]]
  private var written = 0
  private var isEnded = false

  override def part(number: Int, body: Array[Byte]): Unit = synchronized {
    sizes = sizes.added(number, body.length)
    waiting = waiting.updated(number, body)
    store.request(RequestKind.UploadPart, key.name) {
      while (waiting.headOption.exists(_._1 == written + 1)) {
        val next = waiting.head._2
        pending.out.write(next)
        store.sent(next.length)
        waiting = waiting.tail
        written += 1
      }
    }
  }

  override def complete(): Unit = synchronized {
    require(!isEnded, s"the upload of $key has ended already")
    sizes.checkComplete()
    val result = store.request(RequestKind.UploadComplete, key.name) {
      pending.out.close()
      store.createFrom(key, pending.path)
    }
    require(result == CreateResult.Created, s"$key already exists, but uploads must have new names")
    isEnded = true
  }

  override def abort(): Unit = synchronized {
    if (!isEnded) {
      isEnded = true
      store.request(RequestKind.UploadAbort, key.name) {
        pending.out.close()
        store.deletePending(pending.path)
      }
    }
  }
}

private[objectstore] object HadoopUpload {
  final case class Pending(path: Path, out: FSDataOutputStream)
}
