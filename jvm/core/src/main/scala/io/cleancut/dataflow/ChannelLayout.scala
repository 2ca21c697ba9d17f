package io.cleancut.dataflow

import com.fasterxml.jackson.databind.ObjectMapper

import io.cleancut.format.NameDigits.padded

/**
 * Names below a channel, which are those of the Python package's `EpochFiles`, and the markers of
 * readers.
 */
private[dataflow] object ChannelLayout {
  val Epochs = "_epochs"
  val Expired = "_expired"
  val TakenBack = "_taken_back"
  val GivenBack = "_given_back"
  val Acts = "_acts"
  val Owner = "_query.json"
  private val Digits = "([0-9]{20})\\.json".r
  private val Attempt = "([0-9]{20})-([0-9a-f]{32})\\.json".r
  private val mapper = new ObjectMapper

  def manifest(epoch: Long): String = numbered(Epochs, epoch)

  def expiry(number: Long): String = numbered(Expired, number)

  def operation(epoch: Long): String = numbered(Acts, epoch)

  def withdrawal(mark: EpochMark): String = s"$TakenBack/${padded(mark.epoch)}-${mark.attempt}.json"

  /** The epochs of record names in `TakenBack` or `GivenBack`. */
  def attemptsIn(names: Seq[String]): Seq[EpochMark] =
    names.collect { case Attempt(epoch, token) => EpochMark(epoch.toLong, token) }.sortBy(_.epoch)

  def reader(queryId: String, source: String): String = s"_readers/$queryId-$source.json"

  /** The numbers of records, ascending. */
  def numbersIn(names: Seq[String]): Seq[Long] =
    names.collect { case Digits(number) => number.toLong }.sorted

  /** The last expired epoch in an expiry record; None if the record has none. */
  def untilIn(expiry: Array[Byte]): Option[Long] =
    Option(mapper.readTree(expiry).get("until")).filter(_.isIntegralNumber).map(_.longValue)

  def readerNote(queryId: String, source: String, checkpoint: String): Array[Byte] = {
    val node = mapper.createObjectNode()
    node.put("formatVersion", 1)
    node.put("queryId", queryId)
    node.put("source", source)
    node.put("checkpoint", checkpoint)
    mapper.writeValueAsBytes(node)
  }

  private def numbered(directory: String, number: Long) = s"$directory/${padded(number)}.json"
}
