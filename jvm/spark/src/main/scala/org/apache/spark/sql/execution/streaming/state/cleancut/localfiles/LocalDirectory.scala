package org.apache.spark.sql.execution.streaming.state.cleancut.localfiles

import java.nio.file.{Path, Paths}

import org.apache.spark.{SparkConf, SparkEnv}
import org.apache.spark.util.Utils

/** One of Spark's directories for temporary data of the process. */
private[cleancut] object LocalDirectory {
  def get: Path = {
    val conf = Option(SparkEnv.get).fold(new SparkConf)(_.conf)
    Paths.get(Utils.getLocalDir(conf))
  }
}
