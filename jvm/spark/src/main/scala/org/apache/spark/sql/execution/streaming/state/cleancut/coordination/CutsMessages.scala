package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.io._

import scala.util.Using

import io.cleancut.base.StoreId
import io.cleancut.coordinator.state.{Arrival, Delivery, TaskStart, TaskStarted}
import io.cleancut.cutstore.usage.{Place, Sender, Usage}
import io.cleancut.format.{FrameName, FramePlace, StoreCut}
import io.cleancut.protocol.{Ack, Refusal}

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

/** A task attempt begins. Answered by [[StartReply]]. */
final private[cleancut] case class Start(location: String, runId: String, task: TaskStart)
    extends RunMessage {
  override def opens: Option[Long] = Some(task.version)
}

/** Which id of a version counts, for reading. Answered by [[AcceptedReply]]. */
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

/** What a task attempt has made. Answered by [[DeliverReply]] when all of it is durable. */
final private[cleancut] case class Deliver(
    location: String,
    runId: String,
    made: Delivery,
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

/** A task attempt has read a channel to its end. Answered by [[Noted]]. */
final private[cleancut] case class Arrived(
    location: String,
    runId: String,
    attempt: Long,
    arrival: Arrival
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

final private[cleancut] case class AcceptedReply(id: Option[String]) extends CutsReply

/** None where the version is not that of the last cut of the run. */
final private[cleancut] case class ChainReply(chain: Option[StoreCut]) extends CutsReply

final private[cleancut] case class StartReply(started: TaskStarted) extends CutsReply

final private[cleancut] case class OvertakenReply(attempts: Set[Long]) extends CutsReply

final private[cleancut] case class BasesReply(bases: Seq[(FrameName, FramePlace)])
    extends CutsReply {
  def mark: Int = bases.hashCode
}

/** For each frame; none for one that the driver has no room for, and the executor writes itself. */
final private[cleancut] case class DeliverReply(acks: Seq[Option[Ack]]) extends CutsReply

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
