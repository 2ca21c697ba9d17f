package io.cleancut.e2e

import java.nio.file.{Files, Path}

import org.scalatest.{Assertion, Assertions}

import io.cleancut.{CleancutCheckpointFileManager, CleancutStateStoreProvider}
import io.cleancut.conf.Keys
import io.cleancut.testkit.{ChildDriver, MortalFileSystem, SmallQueries}
import io.cleancut.e2e.MortalQuery.Job

/** Runs of [[MortalQuery]] in drivers of their own, and what must come of them. */
trait MortalRuns extends Assertions {
  import MortalRuns._

  /** A job with empty directories below `home`. */
  protected def jobIn(home: Path, location: String): Job = {
    def directory(name: String) = Files.createDirectory(home.resolve(name))
    Job(location, directory("input"), directory("output"))
  }

  protected def run(job: Job, confs: (String, String)*): ChildDriver.End =
    ChildDriver.run(MortalQuery.getClass.getName.stripSuffix("$"), Always ++ confs, job.args: _*)

  /** Rows and state beside those of a batch job over the same input. */
  protected def checkRows(job: Job, files: Int, last: ChildDriver.End): Assertion = {
    val expected = MortalQuery.expected(job, files)
    assert(expected.size > 20)
    assert(MortalQuery.result(job) == expected)
    // What Spark's own reader of state finds.
    val state = "\\[(\\d+),(\\d+),(\\d+)\\]".r
    val found = last.lines(MortalQuery.StateRows).flatMap(state.findAllMatchIn(_)).map { row =>
      s"${row.group(1)} ${row.group(2)} ${row.group(3)}"
    }
    assert(found.toSet == expected && found.size == expected.size)
  }
}

object MortalRuns {
  val State = "spark.sql.streaming.stateStore"
  val ManagerKey = "spark.sql.streaming.checkpointFileManagerClass"

  val Local = "spark.master" -> "local[2]"

  /** Executors are processes of their own with the packaged jar. */
  val Cluster = "spark.master" -> "local-cluster[2,1,1024]"
  val CutsOn = Keys.Cuts.name -> "true"

  /** A function that skips what it has seen, which Spark's own check would refuse. */
  val Skipping: Seq[(String, String)] =
    Seq(MortalQuery.SkipKey -> "true", s"$State.commitValidation.enabled" -> "false")

  def fatal(name: String): (String, String) = s"spark.hadoop.${MortalFileSystem.FatalKey}" -> name

  private val classes =
    classOf[MortalFileSystem].getProtectionDomain.getCodeSource.getLocation.getPath

  private val Always = SmallQueries.Settings ++ Map(
    "spark.app.name" -> "mortal",
    "spark.driver.host" -> "127.0.0.1",
    "spark.jars" -> System.getProperty("cleancut.test.jars"),
    "spark.executor.extraClassPath" -> classes,
    s"spark.hadoop.fs.${MortalFileSystem.Scheme}.impl" -> classOf[MortalFileSystem].getName,
    s"$State.providerClass" -> classOf[CleancutStateStoreProvider].getName,
    ManagerKey -> classOf[CleancutCheckpointFileManager].getName
  )
}
