package io.cleancut.dataflow

import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable

/** A channel in memory, as a sender leaves it that publishes, goes back, and lets epochs go. */
final class DrawnChannel extends ChannelRecords {
  private val records = mutable.SortedMap.empty[String, Array[Byte]]
  private var attempts = 0

  /** What is published, ascending. */
  var chain: Vector[SentEpoch] = Vector.empty

  /** What was taken back last, and can be given back. */
  private var hidden: Vector[SentEpoch] = Vector.empty
  private var until = -1L

  /** The last number that was ever used. */
  var highest: Long = -1L

  /** How often it was asked for a record, and for a listing. */
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

  /** Publishes the next epoch, under the number after the last one unless another is named. */
  def publish(rows: Long = 1, epoch: Long = last.fold(0L)(_.epoch + 1)): SentEpoch = {
    attempts += 1
    highest = math.max(highest, epoch)
    val files = if (rows == 0) Vector.empty else Vector(SentFile(s"_files/$attempts.parquet", rows))
    val mark = EpochMark(epoch, f"$attempts%032x")
    show(SentEpoch(mark, "sender", last, attempts.toLong, rows, files, "{}"))
  }

  /** The sender goes back to what it had published as so many epochs. */
  def goBack(left: Int): Unit = {
    hidden = chain.drop(left)
    hidden.foreach(of => records.remove(ChannelLayout.manifest(of.epoch)))
    chain = chain.take(left)
  }

  /** A rollback whose operation has taken a number, which the sender records when it starts. */
  def rollBack(left: Int): Unit = {
    goBack(left)
    highest += 1
    val source = chain.lastOption.fold(-1L)(_.epoch)
    put(ChannelLayout.operation(highest), s"""{"formatVersion":1,"source":$source}""")
  }

  /**
   * A run from before the rollback publishes an epoch after it, and is killed before it hides it.
   */
  def publishLate(of: SentEpoch): Unit =
    put(ChannelLayout.manifest(of.epoch), DrawnChannel.json(of))

  /** What was taken back last. */
  def takenBack: Vector[SentEpoch] = hidden

  /** The sender comes back to what it was before it went back, and gives up what it did since. */
  def undo(left: Int): Unit = {
    val again = hidden
    goBack(left)
    again.filter(of => of.after == last).headOption.foreach(_ => again.foreach(show))
  }

  /** Lets all epochs go up to one; their manifests stay for a while. */
  def expire(bound: Long, isCollected: Boolean): Unit = {
    until = math.max(until, bound)
    put(ChannelLayout.expiry(attempts.toLong), s"""{"formatVersion":1,"until":$until}""")
    if (isCollected) chain.filter(_.epoch <= until).foreach { of =>
      records.remove(ChannelLayout.manifest(of.epoch))
    }
  }

  private def show(of: SentEpoch): SentEpoch = {
    chain = chain :+ of
    put(ChannelLayout.manifest(of.epoch), DrawnChannel.json(of))
    of
  }
}

object DrawnChannel {

  def json(of: SentEpoch): String = {
    def mark(of: EpochMark) = s"""{"epoch":${of.epoch},"attempt":"${of.attempt}"}"""
    val files = of.files.map(file => s"""{"name":"${file.name}","bytes":${file.bytes}}""")
    s"""{"formatVersion":1,"epoch":${of.epoch},"attempt":"${of.mark.attempt}",
       |"queryId":"${of.sender}","publishedMs":${of.publishedMs},"rows":${of.rows},
       |"files":[${files.mkString(",")}],"format":"parquet","schema":${of.schema},
       |"after":${of.after.fold("null")(mark)}}""".stripMargin
  }
}
