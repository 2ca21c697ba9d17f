import java.security.MessageDigest

import sbt._
import sbt.Keys._

/**
 * The jar that those of all lines of Spark share: the packages that know nothing of Spark, and the
 * S3 client. Both say which build of it they are of, so that they can be compared where they meet.
 */
object CommonJar {

  /** Of one build: the release, and a digest of all classes and resources. */
  final case class Identity(version: String, digest: String)

  private val Folder = "META-INF/cleancut"

  /** Below io/cleancut; what meets Spark is in the other jar. */
  private val ofLines = Set("files", "sinks")

  /** What is compiled once. */
  val sources: FileFilter = new SimpleFileFilter(isCommon)

  private def isCommon(file: File): Boolean = file.getName.endsWith(".scala") &&
    (file.getPath.split("/io/cleancut/") match {
      case Array(_, inside) if inside.contains('/') => !ofLines(inside.takeWhile(_ != '/'))
      // Spark and Python are told of these by name.
      case Array(_, inside) => !inside.startsWith("Cleancut")
      case _                => false
    })

  /** Of classes and resources alone: where the build copies resources to has more later on. */
  def identity(classes: File, resources: File, version: String): Identity = {
    val digest = MessageDigest.getInstance("SHA-256")
    digest.update(Versions.AwsSdk.getBytes("UTF-8"))
    for {
      (root, files) <- Seq(classes -> (classes ** "*.class"), resources -> (resources ** "*"))
      file <- files.get.filter(_.isFile).sortBy(_.getPath)
    } {
      digest.update(root.toPath.relativize(file.toPath).toString.getBytes("UTF-8"))
      digest.update(IO.readBytes(file))
    }
    Identity(version, digest.digest.take(8).map(byte => f"$byte%02x").mkString)
  }

  /** What it says of itself. */
  def own(identity: TaskKey[Identity]): Def.Initialize[Task[Seq[File]]] = Def.task {
    val of = identity.value
    val root = (Compile / resourceManaged).value
    written(root, "common", Seq(s"common=${of.version} ${of.digest}")) ++ licence.value
  }

  private def licence: Def.Initialize[Task[Seq[File]]] = Def.task {
    val copy = (Compile / resourceManaged).value / "META-INF" / "LICENSE"
    IO.copyFile((LocalRootProject / baseDirectory).value / "LICENSE", copy)
    Seq(copy)
  }

  /** What the jar of a line says of itself, and of the one that it was compiled with. */
  def wanted(
      line: String,
      identity: TaskKey[Identity]
  ): Def.Initialize[Task[Seq[File]]] = Def.task {
    val of = identity.value
    val root = (Compile / resourceManaged).value
    val notice = root / "META-INF" / "NOTICE"
    IO.writeLines(notice, Seq("Cleancut", "Licensed under the Apache License, Version 2.0."))
    val lines = Seq(s"line=$line ${of.version}", s"common=${of.version} ${of.digest}")
    written(root, "line", lines) ++ licence.value :+ notice
  }

  private def written(root: File, name: String, lines: Seq[String]): Seq[File] = {
    val file = root / Folder / s"$name.properties"
    IO.writeLines(file, lines)
    Seq(file)
  }
}
