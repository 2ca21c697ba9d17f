package io.cleancut.dataflow

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.ObjectMapper

/**
 * The position of a query in a channel, as in its offset log.
 *
 * @param channel
 *   location of the channel, for users and dataflows; a reader ignores it, because a channel may be
 *   copied with its readers
 * @param last
 *   last epoch that was read; None before the first
 */
final case class ChannelOffset(channel: String, last: Option[EpochMark]) {

  def json: String = {
    val node = ChannelOffset.mapper.createObjectNode()
    node.put("channel", channel)
    node.put("epoch", last.fold(ChannelOffset.NoEpoch)(_.epoch))
    node.put("attempt", last.map(_.attempt).orNull)
    ChannelOffset.mapper.writeValueAsString(node)
  }
}

object ChannelOffset {
  private val NoEpoch = -1L
  private val mapper = new ObjectMapper

  /**
   * Parses the result of `json`.
   *
   * @throws java.lang.IllegalArgumentException
   *   if the text is the offset of another source, which had the same index before
   */
  def parse(text: String): ChannelOffset =
    try {
      val node = mapper.readTree(text)
      val epoch = node.required("epoch").longValue
      val last = Option.when(epoch != NoEpoch) {
        EpochMark(epoch, node.required("attempt").textValue)
      }
      ChannelOffset(node.required("channel").textValue, last)
    } catch {
      case NonFatal(e) =>
        throw new IllegalArgumentException(s"not the offset of a channel: $text", e)
    }
}
