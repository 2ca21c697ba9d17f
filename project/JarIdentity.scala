import java.security.MessageDigest

import sbt._
import sbt.Keys._

/**
 * The build of a jar. There are two kinds: the jar without Spark, and one for each Spark version.
 * Both record the build of the former, so that they can be compared when both are loaded.
 */
object JarIdentity {

  /** A build: the release, and a digest of all classes and resources. */
  final case class Identity(version: String, digest: String)

  private val Folder = "META-INF/cleancut"

  /** Digests classes and resources only, because the directory of resources gets more files. */
  def of(classes: File, resources: File, version: String): Identity = {
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

  /** The record in the jar without Spark. */
  def ofCoreJar(identity: TaskKey[Identity]): Def.Initialize[Task[Seq[File]]] = Def.task {
    val build = identity.value
    val root = (Compile / resourceManaged).value
    written(root, "common", Seq(s"common=${build.version} ${build.digest}")) ++ licence.value
  }

  private def licence: Def.Initialize[Task[Seq[File]]] = Def.task {
    val copy = (Compile / resourceManaged).value / "META-INF" / "LICENSE"
    IO.copyFile((LocalRootProject / baseDirectory).value / "LICENSE", copy)
    Seq(copy)
  }

  /** The record in the jar of a Spark version: its build, and that of the jar without Spark. */
  def ofSparkJar(
      version: String,
      identity: TaskKey[Identity]
  ): Def.Initialize[Task[Seq[File]]] = Def.task {
    val build = identity.value
    val root = (Compile / resourceManaged).value
    val notice = root / "META-INF" / "NOTICE"
    IO.writeLines(notice, Seq("Cleancut", "Licensed under the Apache License, Version 2.0."))
    val lines = Seq(s"line=$version ${build.version}", s"common=${build.version} ${build.digest}")
    written(root, "line", lines) ++ licence.value :+ notice
  }

  private def written(root: File, name: String, lines: Seq[String]): Seq[File] = {
    val file = root / Folder / s"$name.properties"
    IO.writeLines(file, lines)
    Seq(file)
  }
}
