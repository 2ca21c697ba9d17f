package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.io._

import scala.util.Using

import io.cleancut.base.StoreId
import io.cleancut.coordinator.state.{Arrival, Delivery, TaskStart, TaskStarted}
import io.cleancut.cutstore.usage.{Place, Sender, Usage}
import io.cleancut.format.{FrameName, FramePlace, StoreCut}
import io.cleancut.protocol.{Ack, Refusal}

/**
 * Messages of executors to the coordinator. They are sent as bytes, because Spark decodes messages
 * with a class loader that may not know the user's jars.
 *
 * `location` is the query's checkpoint location, `runId` Spark's ID of its run.
 */
sealed private[cleancut] trait CutsMessage extends Serializable {
  def location: String
}

/** A message that starts its run, if the run is unknown. */
sealed private[cleancut] trait RunMessage extends CutsMessage {
  def runId: String

  /** The epoch in which the task opens a store or shuffle input. */
  def opens: Option[Long] = None

  /** Whether the task is about to write frames. */
  def writes: Boolean = false
}

/** A task attempt begins. Answered by [[StartReply]]. */
final private[cleancut] case class Start(location: String, runId: String, task: TaskStart)
    extends RunMessage {
  override def opens: Option[Long] = Some(task.version)
}

/** Requests the ID of a version that counts, for reading. Answered by [[AcceptedReply]]. */
final private[cleancut] case class Accepted(location: String, store: StoreId, version: Long)
    extends CutsMessage

/** Requests the frames of a version, for a task that loads it. Answered by [[ChainReply]]. */
final private[cleancut] case class ChainRequest(
    location: String,
    runId: String,
    store: StoreId,
    version: Long
) extends RunMessage

/** A task attempt has failed. Answered by [[Noted]]. */
final private[cleancut] case class Failed(location: String, runId: String, attempt: Long)
    extends CutsMessage

/** The results of a task attempt. Answered by [[DeliverReply]] when all of them are durable. */
final private[cleancut] case class Deliver(
    location: String,
    runId: String,
    made: Delivery,
    from: SenderInfo
) extends RunMessage

/** A segment for a base is being written. Answered by [[Noted]]. */
final private[cleancut] case class Announce(
    location: String,
    runId: String,
    segment: String,
    version: Long
) extends RunMessage

/** Requests the identity for writing segments. Answered by [[WriterReply]]. */
final private[cleancut] case class Writer(location: String, runId: String) extends RunMessage {
  override def writes: Boolean = true
}

/** A task attempt has read a shuffle input to its end. Answered by [[Noted]]. */
final private[cleancut] case class Arrived(
    location: String,
    runId: String,
    attempt: Long,
    arrival: Arrival
) extends RunMessage

/** Waits for overtaken attempts of an executor that are not in `known`. See [[OvertakenReply]]. */
final private[cleancut] case class AwaitOvertaken(
    location: String,
    runId: String,
    executor: String,
    known: Set[Long]
) extends RunMessage

/**
 * Requests the bases that an executor should have on its disk. Answered by [[BasesReply]], or by
 * [[Noted]] if they have not changed.
 *
 * @param replicas
 *   number of executors with a copy, in addition to the executor that uses it
 * @param known
 *   mark of the last answer
 */
final private[cleancut] case class AskBases(
    location: String,
    at: Place,
    replicas: Int,
    known: Int
) extends CutsMessage

/**
 * The sender, with the usage of its process for the query as bytes: about forty bytes, while an
 * object with the same numbers would take a kilobyte.
 */
final private[cleancut] case class SenderInfo(executor: String, host: String, usage: Array[Byte]) {
  def toSender: Sender = Sender(executor, host, Usage.parse(usage))
}

private[cleancut] object SenderInfo {
  def apply(sender: Sender): SenderInfo =
    SenderInfo(sender.executor, sender.host, sender.usage.toBytes)
}

sealed private[cleancut] trait CutsReply extends Serializable

private[cleancut] case object Noted extends CutsReply

/** No such query runs on this driver. */
private[cleancut] case object NoQuery extends CutsReply

final private[cleancut] case class AcceptedReply(id: Option[String]) extends CutsReply

/** None if the version is not that of the last cut of the run. */
final private[cleancut] case class ChainReply(chain: Option[StoreCut]) extends CutsReply

final private[cleancut] case class StartReply(started: TaskStarted) extends CutsReply

final private[cleancut] case class OvertakenReply(attempts: Set[Long]) extends CutsReply

final private[cleancut] case class BasesReply(bases: Seq[(FrameName, FramePlace)])
    extends CutsReply {
  def mark: Int = bases.hashCode
}

/**
 * An answer for each frame; None if the driver has no space for it, and the executor must write it.
 */
final private[cleancut] case class DeliverReply(acks: Seq[Option[Ack]]) extends CutsReply

final private[cleancut] case class WriterReply(generation: Long) extends CutsReply

/** The request was refused. */
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
