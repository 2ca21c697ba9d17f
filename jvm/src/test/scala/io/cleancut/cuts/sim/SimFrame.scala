package io.cleancut.cuts.sim

import java.nio.charset.StandardCharsets.UTF_8

import io.cleancut.{StateVersion, StoreId}
import io.cleancut.format.{FrameKind, FrameName}

/**
 * What a simulated frame holds in place of a store's records.
 *
 * @param parent
 *   the id of the version that a delta applies to
 * @param writer
 *   the task attempt, with its run
 * @param rows
 *   the rows that a delta adds, or all that a base has
 */
final case class SimFrame(
    name: FrameName,
    parent: Option[String],
    writer: String,
    rows: Vector[Int]
) {

  def run: String = writer.takeWhile(_ != '/')

  def toBytes: Array[Byte] = Seq[Any](
    name.store.operator,
    name.store.partition,
    name.store.name,
    name.version.number,
    name.version.id,
    name.kind.extension,
    parent.getOrElse("none"),
    writer,
    rows.mkString(",")
  ).mkString(" ").getBytes(UTF_8)
}

object SimFrame {

  def parse(bytes: Array[Byte]): SimFrame = {
    val fields = new String(bytes, UTF_8).split(" ", -1)
    val store = StoreId(fields(0).toLong, fields(1).toInt, fields(2))
    val version = StateVersion(fields(3).toLong, fields(4))
    SimFrame(
      FrameName(store, version, FrameKind.named(fields(5))),
      Some(fields(6)).filter(_ != "none"),
      fields(7),
      fields(8).split(",").filter(_.nonEmpty).map(_.toInt).toVector
    )
  }
}
