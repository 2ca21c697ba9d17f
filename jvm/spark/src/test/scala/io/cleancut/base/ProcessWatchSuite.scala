package io.cleancut.base

import java.net.{InetAddress, InetSocketAddress, ServerSocket, Socket, SocketTimeoutException}
import java.util.concurrent.{Executors, TimeUnit}

import scala.util.Using

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.testkit.Patience

/** A process is watched by a connection on the loopback interface. */
class ProcessWatchSuite extends AnyFunSuite {
  private val loopback = InetAddress.getLoopbackAddress

  private def watch(port: Int, isHere: Boolean = true): ProcessWatch =
    ProcessWatch.of(Some(s"127.0.0.1:$port"), isHere)

  private def listen() = new ServerSocket(0, 16, loopback)

  private def awaitGone(process: ProcessWatch): Unit = {
    val endNs = Clock.System.monotonicNs() + TimeUnit.SECONDS.toNanos(Patience.Seconds)
    while (!process.isGone(waitMs = 10L))
      assert(Clock.System.monotonicNs() < endNs, "the death was not noticed")
  }

  test("a process is there as long as its connection, and gone when it ends") {
    Using.resource(listen()) { server =>
      Using.resource(watch(server.getLocalPort)) { process =>
        assert(!process.isGone(0L))
        val accepted = server.accept()
        assert(!process.isGone(1L))
        server.close()
        // The listener alone does not show it: the process may accept no further connection.
        assert(!process.isGone(1L))
        accepted.close()
        awaitGone(process)
        assert(process.isGone(0L))
      }
    }
  }

  test("a process that has died before is gone at once") {
    val port = Using.resource(listen())(_.getLocalPort)
    Using.resource(watch(port))(process => assert(process.isGone(0L)))
  }

  test("a process that closes connections and accepts new ones is there") {
    Using.resource(listen()) { server =>
      val threads = Executors.newSingleThreadExecutor(DaemonThreads.named("accept"))
      var accepted = 0
      threads.execute(() =>
        try
          while (true) {
            val socket: Socket = server.accept()
            socket.close()
            accepted += 1
          }
        catch { case _: java.io.IOException => () }
      )
      Using.resource(watch(server.getLocalPort)) { process =>
        for (_ <- 1 to 20) assert(!process.isGone(20L))
      }
      assert(accepted > 1)
      threads.shutdown()
    }
  }

  test("bytes on the connection mean that the process is there") {
    Using.resource(listen()) { server =>
      Using.resource(watch(server.getLocalPort)) { process =>
        assert(!process.isGone(0L))
        server.accept().getOutputStream.write(Array.fill(3)(1.toByte))
        for (_ <- 1 to 5) assert(!process.isGone(1L))
      }
    }
  }

  /** Connections that fill the queue of a listener, so that a further one is not answered. */
  private def filled(port: Int): Seq[Socket] =
    Iterator
      .continually(new Socket)
      .takeWhile { socket =>
        try {
          socket.connect(new InetSocketAddress(loopback, port), 200)
          true
        } catch { case _: SocketTimeoutException => false }
      }
      .toVector

  test("a process whose connections are not answered any more is gone") {
    Using.resource(new ServerSocket(0, 1, loopback)) { server =>
      Using.resource(watch(server.getLocalPort)) { process =>
        assert(!process.isGone(0L))
        val accepted = server.accept()
        val others = filled(server.getLocalPort)
        assert(!process.isGone(1L))
        accepted.close()
        awaitGone(process)
        others.foreach(_.close())
      }
    }
  }

  test("a process counts as running if no connection has ever been answered") {
    Using.resource(new ServerSocket(0, 1, loopback)) { server =>
      val others = filled(server.getLocalPort)
      Using.resource(watch(server.getLocalPort)) { process =>
        for (_ <- 1 to 100) assert(!process.isGone(0L))
      }
      others.foreach(_.close())
    }
  }

  test("a process that cannot be watched counts as running") {
    val port = Using.resource(listen())(_.getLocalPort)
    // Nothing listens at the port here, but the process is on another host.
    assert(!watch(port, isHere = false).isGone(0L))
    for (address <- Seq(None, Some("no port"), Some("unknown.invalid:1"), Some("127.0.0.1:x")))
      assert(!ProcessWatch.of(address, isHere = true).isGone(0L), address)
  }
}
