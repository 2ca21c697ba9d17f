package io.cleancut.format.cut

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import io.cleancut.base.StoreId
import io.cleancut.format.{Channels, CutLayout, Json, SegmentEnd, StoreOrder}

/** The pages and the window of a cut as JSON. See `docs/FORMAT.md`, "Cut". */
private[format] object PagedJson {
  import Json.required

  private val MaxCrc = 0xffffffffL

  def write(paged: PagedChains, node: ObjectNode): Unit = {
    node.put("storeCount", paged.storeCount)
    val pages = node.putArray("pages")
    paged.pages.foreach { page =>
      val entry = pages.addObject()
      entry.put("name", page.name).put("length", page.length)
      entry.put("crc", Integer.toUnsignedLong(page.crc)).put("stores", page.stores)
      entry.put("operator", page.first.operator).put("partition", page.first.partition)
      entry.put("store", page.first.name)
    }
    val window = node.putArray("window")
    paged.window.foreach(write(_, window.addObject()))
  }

  private def write(part: WindowPart, node: ObjectNode): Unit = {
    node.put("segment", part.segment).put("epoch", part.epoch).put("length", part.end.length)
    node.put("footer", part.end.footerBytes)
    node.put("crc", Integer.toUnsignedLong(part.end.crc))
    part.counted match {
      case Counted.All             => ()
      case Counted.Only(offsets)   => write("counted", offsets, node)
      case Counted.Except(offsets) => write("uncounted", offsets, node)
    }
  }

  private def write(field: String, offsets: Seq[Long], node: ObjectNode): Unit = {
    val array = node.putArray(field)
    offsets.foreach(array.add)
  }

  /** Throws `IllegalArgumentException` if the fields are invalid in a cut of this epoch. */
  def read(node: JsonNode, epoch: Long): PagedChains = {
    val pages = elements(node, "pages").map(readPage)
    require(pages.map(_.name).distinct.size == pages.size, "it names a page twice")
    require(ascend(pages.map(_.first))(StoreOrder), "its pages do not ascend")
    require(pages.forall(_.epoch <= epoch), "a page belongs to a later epoch")
    require(
      !pages.exists(page => Channels.isChannel(page.first)),
      "a page begins with a shuffle input"
    )
    val window = elements(node, "window").map(readPart)
    val keys = window.map(part => (part.segment, part.epoch))
    require(keys.distinct.size == keys.size, "it names a segment twice under one epoch")
    val epochs = window.map(_.epoch)
    require(epochs == epochs.sorted, "its window does not ascend")
    require(epochs.lastOption.forall(_ <= epoch), "its window exceeds its epoch")
    PagedChains(number(node, "storeCount", max = Int.MaxValue).toInt, pages, window)
  }

  private def readPage(node: JsonNode): PageRef = PageRef(
    text(node, "name"),
    number(node, "length", min = 1),
    number(node, "crc", max = MaxCrc).toInt,
    number(node, "stores", min = 1, max = Int.MaxValue).toInt,
    StoreId(
      number(node, "operator", min = Long.MinValue),
      number(node, "partition", min = Int.MinValue, max = Int.MaxValue).toInt,
      text(node, "store")
    )
  )

  private def readPart(node: JsonNode): WindowPart = {
    val segment = text(node, "segment")
    require(CutLayout.parseSegment(segment).isDefined, s"$segment is not the name of a segment")
    val length = number(node, "length", min = 1)
    val most = Math.min(length - Segment.HeaderBytes, Int.MaxValue)
    val end = SegmentEnd(
      length,
      number(node, "footer", min = Segment.TrailerBytes, max = most).toInt,
      number(node, "crc", max = MaxCrc).toInt
    )
    val counted = (offsets(node, "counted"), offsets(node, "uncounted")) match {
      case (None, None)          => Counted.All
      case (Some(only), None)    => Counted.Only(only)
      case (None, Some(without)) => Counted.Except(without)
      case _                     =>
        throw new IllegalArgumentException(s"$segment has offsets that count and others")
    }
    WindowPart(segment, number(node, "epoch"), end, counted)
  }

  private def offsets(node: JsonNode, field: String): Option[Seq[Long]] =
    Option(node.get(field)).map { array =>
      require(array.isArray, s"$field is not an array")
      val values = array.elements.asScala.map(checked(_, field, min = 0)).toVector
      require(ascend(values), s"$field does not ascend")
      values
    }

  private def ascend[A](items: Seq[A])(implicit order: Ordering[A]): Boolean =
    items.iterator.zip(items.iterator.drop(1)).forall { case (a, b) => order.lt(a, b) }

  private def number(
      node: JsonNode,
      field: String,
      min: Long = 0,
      max: Long = Long.MaxValue
  ): Long = checked(required(node, field), field, min, max)

  private def checked(value: JsonNode, field: String, min: Long, max: Long = Long.MaxValue) = {
    val number = value.asLong
    val isPossible = value.isIntegralNumber && value.canConvertToLong
    require(isPossible && number >= min && number <= max, s"$field is $value")
    number
  }

  private def text(node: JsonNode, field: String): String = {
    val value = required(node, field)
    require(value.isTextual, s"$field is $value")
    value.asText
  }

  private def elements(node: JsonNode, field: String): Seq[JsonNode] = {
    val value = required(node, field)
    require(value.isArray, s"$field is not an array")
    value.elements.asScala.toVector
  }
}
