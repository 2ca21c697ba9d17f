package org.apache.spark.sql.execution.streaming.state.cleancut.operations

import org.scalatest.Suite

import org.apache.spark.sql.classic.SparkSession

import io.cleancut.e2e.CutsSession
import io.cleancut.testkit.StepFileSystem

/** A session whose checkpoints can be on [[StepFileSystem]]. */
trait StepFilesSession extends CutsSession { this: Suite =>
  override protected def master: String = "local[2]"
  override protected def partitions: Int = 2

  protected lazy val session: SparkSession = {
    val sparkSession = spark.asInstanceOf[SparkSession]
    val key = s"fs.${StepFileSystem.Scheme}.impl"
    sparkSession.sparkContext.hadoopConfiguration.set(key, classOf[StepFileSystem].getName)
    sparkSession
  }
}
