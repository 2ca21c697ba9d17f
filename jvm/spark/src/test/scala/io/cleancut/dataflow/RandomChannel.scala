package io.cleancut.dataflow

import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable

/** A channel in memory, with a sender that publishes, rolls back and expires epochs. */
final class RandomChannel extends ChannelRecords {
  private val records = mutable.SortedMap.empty[String, Array[Byte]]
  private var attempts = 0

  /** The published epochs, in order. */
  var chain: Vector[SentEpoch] = Vector.empty

  /** The epochs that the last rollback has hidden. */
  var hidden: Vector[SentEpoch] = Vector.empty
  private var until = -1L

  /** The highest number that was ever used. */
  var highest: Long = -1L

  /** Number of reads of records, and of listings. */
  var reads, listings = 0

  override val location: String = "file:/channel"

  override def read(name: String): Option[Array[Byte]] = {
    reads += 1
    records.get(name)
  }

  override def names(directory: String): Seq[String] = {
    listings += 1
    records.keys.filter(_.startsWith(s"$directory/")).map(_.stripPrefix(s"$directory/")).toSeq
  }

  override def replace(name: String, body: Array[Byte]): Unit = records.update(name, body)

  override def create(name: String, body: Array[Byte]): Unit =
    if (!records.contains(name)) replace(name, body)

  override def delete(name: String): Unit = {
    records.remove(name)
    ()
  }

  def put(name: String, body: String): Unit = replace(name, body.getBytes(UTF_8))

  def last: Option[EpochMark] = chain.lastOption.map(_.mark)

  /** Publishes the next epoch, by default under the number after the last one. */
  def publish(rows: Long = 1, epoch: Long = last.fold(0L)(_.epoch + 1)): SentEpoch = {
    attempts += 1
    highest = math.max(highest, epoch)
    val files = if (rows == 0) Vector.empty else Vector(SentFile(s"_files/$attempts.parquet", rows))
    val mark = EpochMark(epoch, f"$attempts%032x")
    show(SentEpoch(mark, "sender", last, attempts.toLong, rows, files, "{}"))
  }

  /** Rolls the sender back to its first `left` epochs without using a number. */
  def rollBackInPlace(left: Int): Unit = {
    hidden = chain.drop(left)
    hidden.foreach(sent => records.remove(ChannelLayout.manifest(sent.epoch)))
    chain = chain.take(left)
  }

  /** Rolls the sender back by an operation that uses a number, which the sender records. */
  def rollBack(left: Int): Unit = {
    rollBackInPlace(left)
    highest += 1
    val source = chain.lastOption.fold(-1L)(_.epoch)
    put(ChannelLayout.operation(highest), s"""{"formatVersion":1,"source":$source}""")
  }

  /**
   * Publishes an epoch by a run from before the rollback, which is killed before it hides the
   * epoch.
   */
  def publishLate(late: SentEpoch): Unit =
    put(ChannelLayout.manifest(late.epoch), RandomChannel.json(late))

  /** Undoes the last rollback and hides the epochs since then. */
  def undo(left: Int): Unit = {
    val again = hidden
    rollBackInPlace(left)
    again.filter(_.after == last).headOption.foreach(_ => again.foreach(show))
  }

  /** Expires all epochs up to one; their manifests may remain. */
  def expire(last: Long, isCollected: Boolean): Unit = {
    until = math.max(until, last)
    put(ChannelLayout.expiry(attempts.toLong), s"""{"formatVersion":1,"until":$until}""")
    if (isCollected) chain.filter(_.epoch <= until).foreach { sent =>
      records.remove(ChannelLayout.manifest(sent.epoch))
    }
  }

  private def show(sent: SentEpoch): SentEpoch = {
    chain = chain :+ sent
    put(ChannelLayout.manifest(sent.epoch), RandomChannel.json(sent))
    sent
  }
}

object RandomChannel {

  def json(sent: SentEpoch): String = {
    def json(mark: EpochMark) = s"""{"epoch":${mark.epoch},"attempt":"${mark.attempt}"}"""
    val files = sent.files.map(file => s"""{"name":"${file.name}","bytes":${file.bytes}}""")
    s"""{"formatVersion":1,"epoch":${sent.epoch},"attempt":"${sent.mark.attempt}",
       |"queryId":"${sent.sender}","publishedMs":${sent.publishedMs},"rows":${sent.rows},
       |"files":[${files.mkString(",")}],"format":"parquet","schema":${sent.schema},
       |"after":${sent.after.fold("null")(json)}}""".stripMargin
  }
}
