package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import scala.concurrent.Future
import scala.concurrent.duration.FiniteDuration
import scala.reflect.ClassTag

import org.apache.spark.SparkEnv
import org.apache.spark.rpc.{RpcAddress, RpcEndpointRef, RpcTimeout}

/** Notes what the tasks of this process ask the coordinator, and how long they wait at most. */
object NotedMessages {

  /** From now on, until another application begins; a message has been sent before. */
  private[coordination] def install(note: (CutsMessage, FiniteDuration) => Any): Unit =
    CutsClient.known = CutsClient.known.map { case (env, ref) => env -> new Noting(ref, note) }

  final private class Noting(under: RpcEndpointRef, note: (CutsMessage, FiniteDuration) => Any)
      extends RpcEndpointRef(SparkEnv.get.conf) {
    override def address: RpcAddress = under.address

    override def name: String = under.name

    override def send(message: Any): Unit = under.send(message)

    override def ask[T: ClassTag](message: Any, timeout: RpcTimeout): Future[T] = {
      note(CutsMessages.decode[CutsMessage](message.asInstanceOf[Array[Byte]]), timeout.duration)
      under.ask[T](message, timeout)
    }
  }
}
