package io.cleancut.objectstore

import scala.collection.immutable.SortedMap

/** The part sizes of one upload, checked against the rules of [[MultipartUpload]]. */
final private[objectstore] case class PartSizes(partBytes: Int, sizes: SortedMap[Int, Int]) {

  def added(number: Int, sizeBytes: Int): PartSizes = {
    require(
      number >= 1 && number <= MultipartUpload.MaxParts,
      s"parts are numbered from 1 to ${MultipartUpload.MaxParts}, not $number"
    )
    require(
      sizeBytes >= 1 && sizeBytes <= partBytes,
      s"part $number has $sizeBytes bytes, and parts have 1 to $partBytes"
    )
    require(!sizes.contains(number), s"part $number was already sent")
    copy(sizes = sizes.updated(number, sizeBytes))
  }

  /** Refuses gaps, an upload without parts, and a short part that is not the last. */
  def checkComplete(): Unit = {
    require(sizes.nonEmpty, "an upload needs a part")
    require(sizes.lastKey == sizes.size, s"parts are missing before ${sizes.lastKey}")
    val short = sizes.init.find { case (_, size) => size != partBytes }
    require(short.isEmpty, s"part ${short.map(_._1).mkString} is shorter than $partBytes bytes")
  }

  def totalBytes: Long = sizes.valuesIterator.map(_.toLong).sum
}

private[objectstore] object PartSizes {

  def of(partBytes: Int): PartSizes = {
    require(
      partBytes >= MultipartUpload.MinPartBytes,
      s"parts have at least ${MultipartUpload.MinPartBytes} bytes, not $partBytes"
    )
    PartSizes(partBytes, SortedMap.empty)
  }
}
