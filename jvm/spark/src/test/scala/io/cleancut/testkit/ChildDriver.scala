package io.cleancut.testkit

import java.io.File
import java.lang.management.ManagementFactory
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Path
import java.util.concurrent.TimeUnit.SECONDS

import scala.jdk.CollectionConverters._

/** A Spark driver in a separate process, so that it can die. */
object ChildDriver {
  private val PatienceS = Patience.Seconds

  /** The exit code, 137 for SIGKILL, and the output of a driver. */
  final case class End(exitCode: Int, printed: String) {
    def lines(prefix: String): Seq[String] =
      printed.linesIterator.filter(_.startsWith(prefix)).map(_.stripPrefix(prefix)).toSeq
  }

  /**
   * Runs a main class to its end, with the class path and options of this JVM.
   *
   * @param confs
   *   configuration of Spark
   */
  def run(mainClass: String, confs: Map[String, String], args: String*): End = {
    val options = ManagementFactory.getRuntimeMXBean.getInputArguments.asScala.toSeq
      .filterNot(option => option.startsWith("-Xm") || option.startsWith("-agent"))
    val program = Path.of(System.getProperty("java.home"), "bin", "java").toString
    val settings = confs.map { case (key, value) => s"-D$key=$value" }
    val command = Seq(program, "-Xmx1g") ++ options ++ settings ++
      Seq("-cp", System.getProperty("java.class.path"), mainClass) ++ args
    val log = File.createTempFile("driver", ".log")
    val process = new ProcessBuilder(command.asJava)
      .redirectErrorStream(true)
      .redirectOutput(log)
      .start()
    // Executors are child processes of the driver and end after its death.
    try
      if (!process.waitFor(PatienceS, SECONDS)) {
        throw new IllegalStateException(s"no end after $PatienceS s:\n${read(log)}")
      } else End(process.exitValue, read(log))
    finally {
      process.descendants.forEach { child => child.destroyForcibly(); () }
      process.destroyForcibly()
      log.delete()
      ()
    }
  }

  private def read(file: File): String = new String(
    java.nio.file.Files.readAllBytes(file.toPath),
    UTF_8
  )
}
