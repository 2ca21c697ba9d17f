package io.cleancut.e2e

import java.nio.file.{Files, Path}
import java.sql.Timestamp

import scala.collection.mutable

import org.apache.commons.io.FileUtils
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.OfflineOperation
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.StateRows
import org.apache.spark.sql.execution.streaming.state.cleancut.session.TestedSpark
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame, Encoders, SparkSession, classic}

import io.cleancut.CleancutStateStoreProvider
import io.cleancut.testkit.{Draws, LoadedStores, SessionPool}

/**
 * Randomized edits that replace floating-point numbers of keys by equal numbers with other bits:
 * 0.0 by -0.0, and a NaN by another NaN. Spark groups and joins by the values, so the query must
 * return the rows and the state that it returns without the edit.
 *
 * `CLEANCUT_EDITS` sets the number of queries, `CLEANCUT_FIRST_SEED` the first seed.
 * `CLEANCUT_SEED` selects a single query.
 */
class EditedKeysSuite extends AnyFunSuite with RocksDbComparison {
  private val sessions = new SessionPool(spark)

  test("an edit that writes equal numbers with other bits changes no group") {
    val seeds = RandomRuns.seeds("CLEANCUT_EDITS", default = Draws.of(8).toLong)
    note(s"seeds ${seeds.head} to ${seeds.last}")
    val wrong = seeds.flatMap(seed => difference(new NumbersQuery(seed)))
    assert(wrong.isEmpty, wrong.mkString("\n", "\n", ""))
  }

  private def difference(query: NumbersQuery): Option[String] = {
    val home = Files.createTempDirectory("cleancut-edited")
    def run(name: String, isEdited: Boolean) = sessions.use(query.settings) { session =>
      new NumbersRun(session, query, home.resolve(name))(isEdited)
    }
    try {
      val (plain, edited) = (run("plain", isEdited = false), run("edited", isEdited = true))
      assert(plain._2.values.exists(_.nonEmpty), query)
      Option.when(edited != plain)(s"$query:\n$edited\ninstead of\n$plain")
    } finally {
      LoadedStores.stop()
      val _ = FileUtils.deleteQuietly(home.toFile)
    }
  }
}

private object EditedKeysSuite {
  val OtherNaN: Double = java.lang.Double.longBitsToDouble(0x7ff8000000000001L)
  val Numbers: Seq[Option[Double]] =
    Seq(0.0, -0.0, Double.NaN, OtherNaN, 1.5).map(Option(_)) :+ None

  /** Forms of a key that contains a number. */
  val Forms: Seq[(String, Column => Column)] = Seq(
    "double" -> identity[Column] _,
    "float" -> (_.cast(FloatType)),
    "struct" -> (number => struct(number.as("d"), lit("x").as("s"))),
    "array" -> (number => array(number, lit(0.0))),
    "nested" -> (number =>
      struct(lit(1).as("n"), array(struct(number.cast(FloatType).as("f"))).as("a"))
    )
  )

  private val Flipped = udf((number: java.lang.Double) =>
    if (number == null) null
    else if (number.isNaN) Double.box(OtherNaN)
    else if (number == 0.0) Double.box(-number)
    else number
  )

  /** An equal value with other bits. */
  def flipped(value: Column, kind: DataType): Column = kind match {
    case DoubleType          => Flipped(value)
    case FloatType           => Flipped(value.cast(DoubleType)).cast(FloatType)
    case ArrayType(one, _)   => transform(value, flipped(_, one))
    case StructType(columns) =>
      val fields = columns.toSeq.map { column =>
        flipped(value.getField(column.name), column.dataType).as(column.name)
      }
      struct(fields: _*)
    case _ => value
  }
}

/** A row of the input. */
final case class NumberRow(number: Option[Double], ts: Timestamp, isLeft: Boolean)

/** A query that groups or joins by numbers, and its input. */
final private class NumbersQuery(val seed: Long) {
  import EditedKeysSuite._

  private val random = RandomRuns.random(seed)
  private val (form, keyOf) = RandomQuery.oneOf(random, Forms: _*)
  private val operator = RandomQuery.oneOf(random, Operators: _*)
  val settings: Map[String, String] = Map(
    "spark.sql.streaming.stateStore.providerClass" -> classOf[CleancutStateStoreProvider].getName,
    "spark.sql.shuffle.partitions" -> (1 + random.nextInt(3)).toString,
    "spark.sql.streaming.aggregation.stateFormatVersion" -> (1 + random.nextInt(2)).toString,
    "spark.sql.streaming.join.stateFormatVersion" ->
      RandomQuery.oneOf(random, TestedSpark.JoinFormats: _*).toString
  )

  def family: String = if (operator == "join") "left" else "default"

  /** Whether the values of its state repeat the key. */
  def repeatsKey: Boolean = operator != "join"
  def mode: OutputMode =
    if (operator == "aggregation") OutputMode.Update() else OutputMode.Append()
  val steps: Seq[Seq[NumberRow]] =
    Seq.tabulate(2)(step => Seq.fill(1 + random.nextInt(12))(row(step)))

  private def row(step: Int) = NumberRow(
    RandomQuery.oneOf(random, Numbers: _*),
    new Timestamp(1700000000000L + step * 1000L + random.nextInt(1000)),
    random.nextBoolean()
  )

  def apply(input: DataFrame): DataFrame = {
    val rows = input
      .withWatermark("ts", "1 hour")
      .select(keyOf(col("number")).as("key"), col("ts"), col("isLeft"))
    operator match {
      case "aggregation" => rows.groupBy("key").agg(count("*"), max("ts"))
      case "sessions"    => rows.groupBy(session_window(col("ts"), "2 hours"), col("key")).count()
      case "dropDuplicates" => rows.select("key").dropDuplicates("key")
      case "join"           =>
        val (left, right) = (rows.where("isLeft").as("l"), rows.where("not isLeft").as("r"))
        left.join(right, expr("l.key = r.key and r.ts between l.ts and l.ts + interval 1 hour"))
    }
  }

  override def toString: String =
    s"CLEANCUT_SEED=$seed $operator by $form, $settings, ${steps.map(_.map(_.number))}"

  private def Operators =
    Seq("aggregation", "sessions", "join") ++ Option.when(TestedSpark.NormalizesDuplicates)(
      "dropDuplicates"
    )
}

/** Runs the query step by step, with or without an edit before the last step. */
final private class NumbersRun(session: SparkSession, query: NumbersQuery, root: Path) {
  import EditedKeysSuite._

  private val source = MemoryStream(Encoders.product[NumberRow], session)
  private val rows = mutable.ArrayBuffer.empty[Seq[String]]

  /** The rows of the last step, and the state after it. */
  def apply(isEdited: Boolean): (Seq[Seq[String]], Map[String, Seq[String]]) = {
    query.steps.zipWithIndex.foreach { case (step, index) =>
      if (isEdited && index > 0) edit()
      source.addData(step)
      run()
    }
    (rows.toSeq.filter(_.nonEmpty), StoredState.readUndivided(session, root))
  }

  private def edit(): Unit = {
    LoadedStores.stop()
    val classicSession = session.asInstanceOf[classic.SparkSession]
    val place = StateRows(0, "default", query.family)
    val state = OfflineOperation.state(classicSession, root.toString, place)
    val keys = state.schema("key").dataType.asInstanceOf[StructType]
    val values = state.schema("value").dataType.asInstanceOf[StructType]
    val changed = values.fields.map { field =>
      val value = col("value").getField(field.name)
      val isKey = query.repeatsKey && keys.fieldNames.contains(field.name)
      (if (isKey) flipped(value, field.dataType) else value).as(field.name)
    }
    val edited = state
      .withColumn("key", flipped(col("key"), keys))
      .withColumn("value", struct(changed.toSeq: _*))
    OfflineOperation.edit(place, edited).run(classicSession, root.toString)
    LoadedStores.stop()
  }

  private def run(): Unit = {
    val started = query(source.toDF()).writeStream
      .outputMode(query.mode)
      .option("checkpointLocation", root.toString)
      .foreachBatch { (batch: DataFrame, _: Long) =>
        rows += batch.collect().map(_.toString).sorted.toSeq
        ()
      }
      .start()
    try started.processAllAvailable()
    finally started.stop()
  }
}
