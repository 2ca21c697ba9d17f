package io.cleancut.bench.capture

import java.nio.file.{Files, Path}
import java.nio.file.attribute.FileTime

import org.apache.spark.sql.{DataFrame, Encoders, SparkSession}
import org.apache.spark.sql.streaming.{GroupState, GroupStateTimeout, OutputMode}

/** A row of a key, ordered by its number. */
final case class KeyedRow(key: Long, number: Long)

/** An output row: `before` is the preceding number of its key. */
final case class PassedRow(key: Long, number: Long, before: Long)

/**
 * The input and the query of [[SlowKeyBench]]: half of the rows have key 0, and so one partition,
 * and each of them is slow.
 *
 * @param slowMs
 *   milliseconds per row of key 0
 * @param rowMs
 *   milliseconds per row of the other keys
 */
final case class SlowKeyQuery(rows: Int, epochs: Int, slowMs: Int, rowMs: Int) {
  import SlowKeyQuery._

  /** Writes one file for each epoch. */
  def write(input: Path): Unit = for (epoch <- 0 until epochs) {
    val lines = (0 until rows).map { i =>
      val key = if (i % 2 == 0) 0 else 1 + i % Keys
      s"$key,${epoch * rows + i}\n"
    }
    val file = Files.writeString(input.resolve(f"$epoch%05d.csv"), lines.mkString)
    // Spark reads files in the order of their modification times.
    Files.setLastModifiedTime(file, FileTime.fromMillis(FirstFileMs + epoch * 1000L))
    ()
  }

  def build(session: SparkSession, input: Path): DataFrame = {
    import session.implicits._
    val (slow, usual) = (slowMs.toLong, rowMs.toLong)
    session.readStream
      .schema(Encoders.product[KeyedRow].schema)
      .option("maxFilesPerTrigger", 1L)
      .csv(input.toString)
      .as[KeyedRow]
      .groupByKey(_.key)
      .flatMapGroupsWithState[Long, PassedRow](
        OutputMode.Append(),
        GroupStateTimeout.NoTimeout()
      )(passed(slow, usual))
      .toDF()
  }
}

object SlowKeyQuery {
  private val Keys = 4000
  private val FirstFileMs = 1000000000000L

  private def passed(slowMs: Long, rowMs: Long)(
      key: Long,
      rows: Iterator[KeyedRow],
      state: GroupState[Long]
  ): Iterator[PassedRow] = {
    var last = state.getOption.getOrElse(-1L)
    val out = rows.map { row =>
      Thread.sleep(if (key == 0) slowMs else rowMs)
      val passed = PassedRow(key, row.number, last)
      last = row.number
      passed
    }.toVector
    state.update(last)
    out.iterator
  }
}
