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
 * For sinks of the Python package: access to their location, and Spark's information about rows.
 *
 * Each call has the location as an argument, because a Spark Connect client cannot keep an object
 * of the driver. Lists are returned as one text with a line for each element. Records are texts.
 */
object CleancutSinks {
  private val mapper = new ObjectMapper

  /** The qualified form of a path. */
  def location(session: SparkSession, path: String): String = at(session, path).location

  /**
   * Checks the requirements of the first write of a run.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_STORE_UNSAFE
   */
  def prepare(session: SparkSession, path: String): Unit = at(session, path).prepare()

  /** A record, if it exists. */
  def read(session: SparkSession, path: String, name: String): Option[String] =
    at(session, path).read(name).map(new String(_, UTF_8))

  /**
   * Writes a record unless one of this name exists.
   *
   * @return
   *   whether it was written
   */
  def create(session: SparkSession, path: String, name: String, body: String): Boolean =
    at(session, path).create(name, body.getBytes(UTF_8))

  /** The names directly below a directory. */
  def names(session: SparkSession, path: String, directory: String): String =
    at(session, path).names(directory)

  /** Size in bytes and name of each file below an existing directory. */
  def files(session: SparkSession, path: String, directory: String): String =
    at(session, path).files(directory)

  /** Deletes a record, or a directory with its content, if it exists. */
  def delete(session: SparkSession, path: String, name: String): Unit =
    at(session, path).delete(name)

  /**
   * Writes rows to a new directory. The rows are read once.
   *
   * @param options
   *   options of the format, as a JSON object
   * @param partitionBy
   *   columns, as a JSON array
   * @param directory
   *   absolute path that does not exist
   * @return
   *   the number of rows, then a line for each file: its size in bytes and its name below the
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

  /**
   * Spark's estimate of the size of rows in bytes, which is exact for persisted rows; an integer.
   */
  def bytes(rows: Dataset[_]): String =
    ClassicRows.of(rows).queryExecution.optimizedPlan.stats.sizeInBytes.toString

  private val Options = new TypeReference[JLinkedHashMap[String, String]] {}
  private val Columns = new TypeReference[JArrayList[String]] {}

  private def at(session: SparkSession, path: String): SinkDirectory =
    SinkRows.directory(session, path)
}
