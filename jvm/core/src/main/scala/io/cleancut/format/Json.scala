package io.cleancut.format

import java.io.{ByteArrayOutputStream, IOException}

import com.fasterxml.jackson.core.{JsonFactoryBuilder, StreamReadConstraints}
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

private[format] object Json {

  /** A required field; throws `IllegalArgumentException` if it is missing. */
  def required(node: JsonNode, field: String): JsonNode = {
    val value = node.get(field)
    require(value != null, s"no field $field")
    value
  }

  /** Reads texts of any length: by default, Jackson refuses strings of many megabytes. */
  def mapperOfLongTexts: ObjectMapper = {
    val constraints = StreamReadConstraints.builder().maxStringLength(Int.MaxValue).build()
    new ObjectMapper(new JsonFactoryBuilder().streamReadConstraints(constraints).build())
  }

  /** The node as JSON, or None if it exceeds `maxBytes`. Uses no memory beyond them. */
  def bounded(mapper: ObjectMapper, node: JsonNode, maxBytes: Int): Option[Array[Byte]] = {
    val out = new Bounded(maxBytes)
    try {
      mapper.writeValue(out, node)
      Some(out.toByteArray)
    } catch { case _: IOException if out.isOver => None }
  }

  final private class Bounded(maxBytes: Int) extends ByteArrayOutputStream {
    var isOver = false

    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
      isOver = isOver || length > maxBytes - count
      if (isOver) throw new IOException(s"more than $maxBytes bytes")
      super.write(bytes, offset, length)
    }
  }
}
