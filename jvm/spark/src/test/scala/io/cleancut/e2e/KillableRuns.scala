package io.cleancut.e2e

import java.nio.file.{Files, Path}

import org.scalatest.{Assertion, Assertions}

import io.cleancut.{CleancutCheckpointFileManager, CleancutStateStoreProvider}
import io.cleancut.conf.Keys
import io.cleancut.testkit.{ChildDriver, KillableFileSystem, SmallQueries}
import io.cleancut.e2e.KillableQuery.Job

/** Runs [[KillableQuery]] in separate drivers and checks the results. */
trait KillableRuns extends Assertions {
  import KillableRuns._

  /** A job with empty directories below `home`. */
  protected def jobIn(home: Path, location: String): Job = {
    def directory(name: String) = Files.createDirectory(home.resolve(name))
    Job(location, directory("input"), directory("output"))
  }

  protected def run(job: Job, confs: (String, String)*): ChildDriver.End =
    ChildDriver.run(KillableQuery.getClass.getName.stripSuffix("$"), Always ++ confs, job.args: _*)

  /** Compares rows and state with those of a batch job on the same input. */
  protected def checkRows(job: Job, files: Int, last: ChildDriver.End): Assertion = {
    val expected = KillableQuery.expected(job, files)
    assert(expected.size > 20)
    assert(KillableQuery.result(job) == expected)
    // The state that Spark's state reader returns.
    val state = "\\[(\\d+),(\\d+),(\\d+)\\]".r
    val stored = last.lines(KillableQuery.StateRows).flatMap(state.findAllMatchIn(_)).map { row =>
      s"${row.group(1)} ${row.group(2)} ${row.group(3)}"
    }
    assert(stored.toSet == expected && stored.size == expected.size)
  }
}

object KillableRuns {
  val State = "spark.sql.streaming.stateStore"
  val ManagerKey = "spark.sql.streaming.checkpointFileManagerClass"

  val Local = "spark.master" -> "local[2]"

  /** A master whose executors are separate processes with the packaged jar. */
  val Cluster = "spark.master" -> "local-cluster[2,1,1024]"
  val CutsOn = Keys.Cuts.name -> "true"

  /** Settings for a function that skips repeated epochs, which Spark's validation refuses. */
  val Skipping: Seq[(String, String)] =
    Seq(KillableQuery.SkipKey -> "true", s"$State.commitValidation.enabled" -> "false")

  def fatal(name: String): (String, String) = s"spark.hadoop.${KillableFileSystem.FatalKey}" -> name

  private val classes =
    classOf[KillableFileSystem].getProtectionDomain.getCodeSource.getLocation.getPath

  private val Always = SmallQueries.Settings ++ Map(
    "spark.app.name" -> "mortal",
    "spark.driver.host" -> "127.0.0.1",
    "spark.jars" -> System.getProperty("cleancut.test.jars"),
    "spark.executor.extraClassPath" -> classes,
    s"spark.hadoop.fs.${KillableFileSystem.Scheme}.impl" -> classOf[KillableFileSystem].getName,
    s"$State.providerClass" -> classOf[CleancutStateStoreProvider].getName,
    ManagerKey -> classOf[CleancutCheckpointFileManager].getName
  )
}
