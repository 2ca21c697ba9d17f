package io.cleancut.testkit

import java.io.IOException
import java.net.{InetAddress, InetSocketAddress, ServerSocket, Socket}
import java.nio.file.{Files, Path}
import java.util.concurrent.TimeUnit.SECONDS

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._

/** A server in a separate process on loopback. It ends with the tests at the latest. */
final class ServerProcess private (process: Process, log: Path, val port: Int)
    extends AutoCloseable {
  private val atExit = new Thread(() => kill())
  Runtime.getRuntime.addShutdownHook(atExit)

  /** Kills the server and the processes that it has started. */
  def kill(): Unit = {
    // The server may be a child of a launcher. Descendants are listed first, because a process
    // without its parent is not listed.
    val all = descendants
    process.destroyForcibly().waitFor()
    all.foreach(_.destroyForcibly())
  }

  override def close(): Unit = {
    val all = descendants
    process.destroy()
    if (!process.waitFor(5, SECONDS)) kill()
    all.foreach(_.destroyForcibly())
    Runtime.getRuntime.removeShutdownHook(atExit)
    ()
  }

  private def descendants: Seq[ProcessHandle] = process.descendants.iterator.asScala.toSeq

  private def awaitPort(seconds: Int): Unit = {
    @tailrec def attempt(left: Int): Unit = {
      if (!process.isAlive || left == 0)
        throw new IllegalStateException(s"The server does not listen:\n${Files.readString(log)}")
      if (!ServerProcess.listens(port)) {
        Thread.sleep(100)
        attempt(left - 1)
      }
    }
    attempt(seconds * 10)
  }
}

object ServerProcess {

  /** Starts a command and returns when it listens on the port. */
  def start(command: Seq[String], port: Int, environment: Map[String, String] = Map.empty)(
      log: Path
  ): ServerProcess = {
    val builder = new ProcessBuilder(command.asJava).redirectErrorStream(true)
    builder.environment.putAll(environment.asJava)
    builder.redirectOutput(log.toFile)
    val server = new ServerProcess(builder.start(), log, port)
    try {
      server.awaitPort(seconds = 60)
      server
    } catch {
      case e: Throwable =>
        server.close()
        throw e
    }
  }

  /** The command of another JVM with little memory. */
  def java(classPath: String, mainClass: String, args: String*): Seq[String] =
    Seq(javaProgram) ++ Small ++ Seq("-cp", classPath, mainClass) ++ args

  private val Small = Seq("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

  def freePort(): Int = {
    val socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress)
    try socket.getLocalPort
    finally socket.close()
  }

  private def javaProgram = Path.of(System.getProperty("java.home"), "bin", "java").toString

  private def listens(port: Int): Boolean = {
    val socket = new Socket
    try {
      socket.connect(new InetSocketAddress(InetAddress.getLoopbackAddress, port), 500)
      true
    } catch { case _: IOException => false }
    finally socket.close()
  }
}
