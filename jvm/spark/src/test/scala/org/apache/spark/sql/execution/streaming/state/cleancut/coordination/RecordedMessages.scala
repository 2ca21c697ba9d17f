package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import scala.concurrent.Future
import scala.concurrent.duration.FiniteDuration
import scala.reflect.ClassTag

import org.apache.spark.SparkEnv
import org.apache.spark.rpc.{RpcAddress, RpcEndpointRef, RpcTimeout}

/** Records the messages of this process' tasks to the coordinator, with their timeouts. */
object RecordedMessages {

  /** Records until another application begins. A message must have been sent before. */
  private[coordination] def install(record: (CutsMessage, FiniteDuration) => Any): Unit =
    CutsClient.known = CutsClient.known.map { case (env, ref) => env -> new Recording(ref, record) }

  final private class Recording(under: RpcEndpointRef, record: (CutsMessage, FiniteDuration) => Any)
      extends RpcEndpointRef(SparkEnv.get.conf) {
    override def address: RpcAddress = under.address

    override def name: String = under.name

    override def send(message: Any): Unit = under.send(message)

    override def ask[T: ClassTag](message: Any, timeout: RpcTimeout): Future[T] = {
      record(CutsMessages.decode[CutsMessage](message.asInstanceOf[Array[Byte]]), timeout.duration)
      under.ask[T](message, timeout)
    }
  }
}
