package io.cleancut.format

import com.fasterxml.jackson.databind.JsonNode

private[format] object Json {

  /** A field that must be there; throws `IllegalArgumentException` where it is not. */
  def required(node: JsonNode, field: String): JsonNode = {
    val value = node.get(field)
    require(value != null, s"no field $field")
    value
  }
}
