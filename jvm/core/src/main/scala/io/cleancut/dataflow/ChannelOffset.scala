package io.cleancut.dataflow

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.ObjectMapper

/**
 * How far a query has read a channel, as its offset log keeps it.
 *
 * @param channel
 *   where the channel lay then, for people and for a dataflow; a reader does not look at it, since
 *   a channel may be copied with those who read it
 * @param last
 *   the last epoch that was read; None before the first
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
   * Reads what `json` made.
   *
   * @throws java.lang.IllegalArgumentException
   *   it is something else: the source has followed another one under its number
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
      case NonFatal(e) => throw new IllegalArgumentException(s"no offset of a channel: $text", e)
    }
}
