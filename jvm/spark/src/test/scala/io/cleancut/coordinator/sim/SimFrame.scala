package io.cleancut.coordinator.sim

import java.nio.charset.StandardCharsets.UTF_8

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.format.{Chains, FrameKind, FrameName, FramePlace}

/**
 * A simulated frame. It has rows instead of the records of a store. * * @param parent the id of the
 * version that a delta applies to
 * @param writer
 *   the task attempt, with its run
 * @param rows
 *   the rows that a delta adds, or all that a base has
 * @param source
 *   the frames that a referring base refers to
 */
final case class SimFrame(
    name: FrameName,
    parent: Option[String],
    writer: String,
    rows: Vector[Int],
    source: Seq[Chains.Frame] = Nil
) {

  /** The frame with the rows of the frames that it refers to. */
  def followed(read: (FrameName, FramePlace) => Option[SimFrame]): SimFrame =
    if (source.isEmpty) this
    else {
      val frames = source.flatMap { case (kind, version, place) =>
        read(FrameName(name.store, version, kind), place).map(_.followed(read))
      }
      copy(rows = frames.flatMap(_.rows).toVector)
    }

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
    rows.mkString(","),
    source
      .map { case (kind, version, at) =>
        val place = Seq[Any](at.segment, at.offset, at.length, at.crc)
        (Seq[Any](kind.extension, version.number, version.id) ++ place).mkString(":")
      }
      .mkString(",")
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
      fields(8).split(",").filter(_.nonEmpty).map(_.toInt).toVector,
      fields(9).split(",").filter(_.nonEmpty).map(sourceOf).toVector
    )
  }

  private def sourceOf(text: String): Chains.Frame = {
    val parts = text.split(":")
    val place = FramePlace(parts(3), parts(4).toLong, parts(5).toLong, parts(6).toInt)
    (FrameKind.named(parts(0)), StateVersion(parts(1).toLong, parts(2)), place)
  }
}
