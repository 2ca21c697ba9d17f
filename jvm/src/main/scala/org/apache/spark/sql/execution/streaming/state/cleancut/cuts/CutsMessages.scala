package org.apache.spark.sql.execution.streaming.state.cleancut.cuts

import java.io._

import scala.util.Using

import io.cleancut.StoreId
import io.cleancut.channels.{ChannelOpened, ChannelReading, ChannelReport, ChannelTask}
import io.cleancut.cuts.{Ack, Opened, Place, Refusal, Sender, Usage}
import io.cleancut.format.{FrameName, FramePlace, PlacedFrame, StoreCut}

/**
 * What executors ask the coordinator. A message travels as bytes, since Spark reads what arrives
 * with a class loader that may not know the user's jars.
 *
 * `location` is the query's checkpoint location, `runId` Spark's id of its run.
 */
sealed private[cleancut] trait CutsMessage extends Serializable {
  def location: String
}

/** What makes its run begin, if nothing of that has been heard of yet. */
sealed private[cleancut] trait RunMessage extends CutsMessage {
  def runId: String

  /** The epoch of which a task opens something. */
  def opens: Option[Long] = None
}

/** A task attempt opens a store for writing. Answered by [[OpenReply]]. */
final private[cleancut] case class Open(
    location: String,
    runId: String,
    attempt: Long,
    store: StoreId,
    version: Long,
    at: Place
) extends RunMessage {
  override def opens: Option[Long] = Some(version)
}

/** Which id of a version counts, for reading. Answered by [[OpenReply]]. */
final private[cleancut] case class Accepted(location: String, store: StoreId, version: Long)
    extends CutsMessage

/** What made a version, for a task that has to load it. Answered by [[ChainReply]]. */
final private[cleancut] case class ChainOf(
    location: String,
    runId: String,
    store: StoreId,
    version: Long
) extends RunMessage

/** A task attempt has failed. Answered by [[Noted]]. */
final private[cleancut] case class Failed(location: String, runId: String, attempt: Long)
    extends CutsMessage

/** A frame to be made durable. Answered by [[AckReply]] when it is, or by [[Full]]. */
final private[cleancut] case class Submit(
    location: String,
    runId: String,
    frame: FrameName,
    attempt: Long,
    bytes: Array[Byte],
    from: SentBy
) extends RunMessage

/** A frame is durable. Answered by [[AckReply]]. */
final private[cleancut] case class Report(
    location: String,
    runId: String,
    frame: PlacedFrame,
    from: SentBy
) extends RunMessage

/** A segment for a base is being written. Answered by [[Noted]]. */
final private[cleancut] case class Announce(
    location: String,
    runId: String,
    segment: String,
    version: Long
) extends RunMessage

/** As whom to write segments. Answered by [[WriterReply]]. */
final private[cleancut] case class Writer(location: String, runId: String) extends RunMessage

/** A task attempt begins to read a channel. Answered by [[ChannelReply]]. */
final private[cleancut] case class OpenChannel(location: String, runId: String, task: ChannelTask)
    extends RunMessage {
  override def opens: Option[Long] = Some(task.epoch)
}

/** A task attempt has read a channel to its end. Answered by [[Noted]]. */
final private[cleancut] case class Arrived(
    location: String,
    runId: String,
    attempt: Long,
    report: ChannelReport,
    reading: ChannelReading
) extends RunMessage

/** Which attempts of an executor are overtaken, once there are more. See [[OvertakenReply]]. */
final private[cleancut] case class AwaitOvertaken(
    location: String,
    runId: String,
    executor: String,
    known: Set[Long]
) extends RunMessage

/**
 * Which bases an executor had better have on its disk. Answered by [[BasesReply]], or by [[Noted]]
 * if these are what it knows.
 *
 * @param replicas
 *   how many executors are to have a copy, beside that which works on it
 * @param known
 *   the mark of the last answer
 */
final private[cleancut] case class AskBases(
    location: String,
    at: Place,
    replicas: Int,
    known: Int
) extends CutsMessage

/**
 * Who reports, and as bytes what its process has used for the query so far: some forty bytes, where
 * an object of so many numbers would take a kilobyte.
 */
final private[cleancut] case class SentBy(executor: String, host: String, usage: Array[Byte]) {
  def toSender: Sender = Sender(executor, host, Usage.parse(usage))
}

private[cleancut] object SentBy {
  def apply(sender: Sender): SentBy =
    SentBy(sender.executor, sender.host, sender.usage.toBytes)
}

sealed private[cleancut] trait CutsReply extends Serializable

private[cleancut] case object Noted extends CutsReply

/** No such query runs on this driver. */
private[cleancut] case object NoQuery extends CutsReply

/** The driver has no room; the executor writes the frame itself. */
private[cleancut] case object Full extends CutsReply

final private[cleancut] case class OpenReply(opened: Opened) extends CutsReply

/** None where the version is not that of the last cut of the run. */
final private[cleancut] case class ChainReply(chain: Option[StoreCut]) extends CutsReply

final private[cleancut] case class ChannelReply(opened: ChannelOpened) extends CutsReply

final private[cleancut] case class OvertakenReply(attempts: Set[Long]) extends CutsReply

final private[cleancut] case class BasesReply(bases: Seq[(FrameName, FramePlace)])
    extends CutsReply {
  def mark: Int = bases.hashCode
}

final private[cleancut] case class AckReply(ack: Ack) extends CutsReply

final private[cleancut] case class WriterReply(generation: Long) extends CutsReply

/** The answer to what this run of the query may not do. */
final private[cleancut] case class Declined(why: Refusal) extends CutsReply

private[cleancut] object CutsMessages {

  def encode(message: Serializable): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    Using.resource(new ObjectOutputStream(bytes))(_.writeObject(message))
    bytes.toByteArray
  }

  def decode[A](bytes: Array[Byte]): A =
    Using.resource(new OwnClasses(new ByteArrayInputStream(bytes)))(_.readObject().asInstanceOf[A])

  private class OwnClasses(in: InputStream) extends ObjectInputStream(in) {
    override def resolveClass(description: ObjectStreamClass): Class[_] =
      try Class.forName(description.getName, false, getClass.getClassLoader)
      catch { case _: ClassNotFoundException => super.resolveClass(description) }
  }
}
