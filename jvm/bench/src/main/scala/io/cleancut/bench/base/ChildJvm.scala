package io.cleancut.bench.base

import java.io.File
import java.lang.management.ManagementFactory
import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

/** Runs a benchmark in a separate JVM, with the options and the class path of this one. */
object ChildJvm {

  /**
   * The tab-separated fields of its output lines.
   *
   * @param bench
   *   object with the main method
   * @param options
   *   JVM options, in addition to those of this JVM
   * @param classes
   *   directories that precede the class path of this JVM
   */
  def run(
      bench: AnyRef,
      arguments: Seq[String],
      options: Seq[String] = Nil,
      classes: Option[String] = None
  ): Seq[Array[String]] = {
    val main = bench.getClass.getName.stripSuffix("$")
    val jvm = ManagementFactory.getRuntimeMXBean
    val java = Path.of(System.getProperty("java.home"), "bin", "java").toString
    val classPath = (classes.toSeq :+ jvm.getClassPath).mkString(File.pathSeparator)
    val command = Seq(java) ++ jvm.getInputArguments.asScala ++
      Seq("-Xmx6g") ++ options ++ Seq("-cp", classPath, main) ++ arguments
    val said = Files.createTempFile("cleancut-bench", ".log")
    try {
      val child =
        new ProcessBuilder(command.asJava).redirectError(said.toFile).start()
      val lines = new String(child.getInputStream.readAllBytes()).linesIterator.toSeq
      val failed = child.waitFor() != 0
      if (failed) Files.readString(said).linesIterator.toSeq.takeRight(Said).foreach(println)
      require(!failed, s"failed: $main ${arguments.mkString(" ")}")
      lines.map(_.split("\t"))
    } finally Files.delete(said)
  }

  /** Lines of standard error that are shown after a failure. */
  private val Said = 40
}
