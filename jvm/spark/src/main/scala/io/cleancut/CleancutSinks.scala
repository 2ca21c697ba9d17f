package io.cleancut

import java.nio.charset.StandardCharsets.UTF_8
import java.util.{ArrayList => JArrayList, LinkedHashMap => JLinkedHashMap}

import com.fasterxml.jackson.core.`type`.TypeReference
import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.sql.Dataset
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.cleancut.sinks.{SinkDirectory, SinkRows}
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.ClassicRows

/**
 * For sinks of the Python package: the place that one writes to, and what Spark knows of rows.
 *
 * Each call names its place anew, since a client of Spark Connect keeps no object of a driver. What
 * may have many elements is one text with a line for each; records are texts.
 */
object CleancutSinks {
  private val mapper = new ObjectMapper

  /** A path, as the session's file systems name it. */
  def location(session: SparkSession, path: String): String = at(session, path).location

  /**
   * What the first write of a run needs to be sure of.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_STORE_UNSAFE
   */
  def prepare(session: SparkSession, path: String): Unit = at(session, path).prepare()

  /** A record, if it is there. */
  def read(session: SparkSession, path: String, name: String): Option[String] =
    at(session, path).read(name).map(new String(_, UTF_8))

  /** Writes a record unless there is one of this name; whether it did. */
  def create(session: SparkSession, path: String, name: String, body: String): Boolean =
    at(session, path).create(name, body.getBytes(UTF_8))

  /** What lies directly below a directory. */
  def names(session: SparkSession, path: String, directory: String): String =
    at(session, path).names(directory)

  /** Size in bytes and name of each file below a directory that is there. */
  def files(session: SparkSession, path: String, directory: String): String =
    at(session, path).files(directory)

  /** Removes a record, or a directory with all that is in it, if it is there. */
  def delete(session: SparkSession, path: String, name: String): Unit =
    at(session, path).delete(name)

  /**
   * Writes rows into a directory of their own, reading them once.
   *
   * @param options
   *   of the format, as a JSON object
   * @param partitionBy
   *   columns, as a JSON array
   * @param directory
   *   a whole path that is not there
   * @return
   *   how many rows these are, then a line for each file: its size in bytes and its name below the
   *   directory
   */
  def write(
      rows: Dataset[_],
      format: String,
      options: String,
      partitionBy: String,
      directory: String
  ): String = SinkRows.write(
    ClassicRows.of(rows),
    format,
    mapper.readValue(options, Options),
    mapper.readValue(partitionBy, Columns),
    directory
  )

  /** How many bytes Spark takes rows for, which it knows of those that it keeps; a whole number. */
  def bytes(rows: Dataset[_]): String =
    ClassicRows.of(rows).queryExecution.optimizedPlan.stats.sizeInBytes.toString

  private val Options = new TypeReference[JLinkedHashMap[String, String]] {}
  private val Columns = new TypeReference[JArrayList[String]] {}

  private def at(session: SparkSession, path: String): SinkDirectory =
    SinkRows.directory(session, path)
}
