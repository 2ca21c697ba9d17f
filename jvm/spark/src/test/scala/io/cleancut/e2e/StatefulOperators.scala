package io.cleancut.e2e

import org.apache.spark.sql.{Column, DataFrame, Dataset}
import org.apache.spark.sql.execution.streaming.state.cleancut.session.TestedSpark
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.{GroupState, GroupStateTimeout, OutputMode}

import io.cleancut.e2e.RandomQuery.oneOf

/**
 * A stateful operator, or a chain of two.
 *
 * @param build
 *   builds the query with random details
 * @param variants
 *   the settings of each of its state formats
 * @param oneRowPerKey
 *   whether the result depends on the order of rows of a key, which Spark does not define within an
 *   epoch
 */
final case class StatefulOperator(
    name: String,
    mode: OutputMode,
    build: (Dataset[Reading], Choices) => DataFrame,
    variants: Seq[Map[String, String]] = Seq(Map.empty),
    oneRowPerKey: Boolean = false
)

/** All stateful operators of Spark whose rows do not depend on the clock. */
object StatefulOperators {
  // Spark's validation refuses the rows that Spark writes in format 1 with a timeout.
  private val UncheckedRows = "spark.sql.streaming.stateStore.formatValidation.enabled" -> "false"

  private val Append = OutputMode.Append()
  private val Update = OutputMode.Update()
  private val Complete = OutputMode.Complete()

  val all: Seq[StatefulOperator] = aggregations ++ sessions ++ deduplications ++ joins ++
    groupStates ++ processors ++ chains :+ StatefulOperator("limit", Append, limited)

  private def aggregations: Seq[StatefulOperator] = {
    val versions = formats("aggregation", 1, 2)
    Seq(
      StatefulOperator("aggregation, update", Update, totals, versions),
      StatefulOperator("aggregation, complete", Complete, totals, versions),
      StatefulOperator("window aggregation, update", Update, windows, versions),
      StatefulOperator("window aggregation, append", Append, windows, versions)
    )
  }

  private def sessions: Seq[StatefulOperator] = {
    val merged = Seq("false", "true").map { merges =>
      Map("spark.sql.streaming.sessionWindow.merge.sessions.in.local.partition" -> merges)
    }
    Seq(
      StatefulOperator("session windows, append", Append, sessionWindows, merged),
      StatefulOperator("session windows, complete", Complete, sessionWindows, merged)
    )
  }

  private def deduplications: Seq[StatefulOperator] = Seq(
    StatefulOperator(
      "dropDuplicates",
      Append,
      (input, _) => input.select("key", "value").dropDuplicates()
    ),
    StatefulOperator("dropDuplicates with watermark", Append, distinctSeconds),
    StatefulOperator(
      "dropDuplicatesWithinWatermark",
      Append,
      (input, random) => timed(input, random).dropDuplicatesWithinWatermark("key").toDF(),
      oneRowPerKey = true
    )
  )

  private def joins: Seq[StatefulOperator] =
    for {
      how <- Seq("inner", "left_outer", "right_outer", "full_outer", "left_semi")
      (bound, build) <- Seq("time bounds" -> boundedJoin(how) _, "windows" -> windowJoin(how) _)
    } yield StatefulOperator(
      s"$how join, $bound",
      Append,
      build,
      formats("join", TestedSpark.JoinFormats: _*)
    )

  private def groupStates: Seq[StatefulOperator] = {
    val versions = formats("flatMapGroupsWithState", 1, 2).map(_ + UncheckedRows)
    val flat = for {
      (name, timeout) <- Seq(
        "no" -> GroupStateTimeout.NoTimeout(),
        "event-time" -> GroupStateTimeout.EventTimeTimeout()
      )
      mode <- Seq(Append, Update)
    } yield StatefulOperator(
      s"flatMapGroupsWithState, $name timeout, ${mode.toString.toLowerCase}",
      mode,
      flatMapped(mode, timeout),
      versions
    )
    flat :+ StatefulOperator("mapGroupsWithState", Update, mapped, versions)
  }

  private def processors: Seq[StatefulOperator] = Seq(
    StatefulOperator(
      "transformWithState",
      Append,
      (input, random) => balances(events(input, random)).toDF()
    ),
    StatefulOperator("transformWithState, initial state", Append, openedBalances)
  )

  private def chains: Seq[StatefulOperator] = Seq(
    StatefulOperator(
      "aggregation, aggregation",
      Append,
      (input, random) =>
        windows(input, random)
          .groupBy(window(col("window"), "40 seconds"))
          .agg(count("*"), sum("total"))
    ),
    StatefulOperator(
      "dropDuplicates, aggregation",
      Append,
      (input, random) => countByWindow(distinctSeconds(input, random))
    ),
    StatefulOperator(
      "join, aggregation",
      Append,
      (input, random) =>
        countByWindow(
          joined(oneOf(random, "inner", "left_outer"), timed(input, random).toDF(), random)
            .select(col("l.key").as("key"), col("l.ts").as("ts"))
        ),
      formats("join", TestedSpark.JoinFormats: _*)
    ),
    StatefulOperator(
      "transformWithState, aggregation",
      Append,
      (input, random) => countByWindow(balances(events(input, random)).toDF())
    )
  )

  private def formats(operator: String, versions: Int*): Seq[Map[String, String]] =
    versions.map { version =>
      Map(s"spark.sql.streaming.$operator.stateFormatVersion" -> version.toString)
    }

  /** The input with the watermark delay of the query. */
  private[e2e] def timed(input: Dataset[Reading], random: Choices): Dataset[Reading] =
    input.withWatermark("ts", s"${random.delayMs} milliseconds")

  private def aggregates: Seq[Column] = Seq(
    sum("value").as("total"),
    min("value"),
    max("value"),
    avg("value"),
    // A value of changing length, and null for some groups.
    max(expr("if(value % 3 = 0, null, repeat('x', cast(value % 40 as int)))"))
  )

  private def totals(input: Dataset[Reading], random: Choices): DataFrame = {
    val by = oneOf(random, Seq(col("key")), Seq(col("key"), col("value") % 7))
    keyed(input, random).groupBy(by: _*).agg(count("*"), aggregates: _*)
  }

  private def windows(input: Dataset[Reading], random: Choices): DataFrame = {
    val windowOf = oneOf(
      random,
      window(col("ts"), "10 seconds"),
      window(col("ts"), "20 seconds", "5 seconds")
    ).as("window")
    keyed(timed(input, random), random)
      .groupBy(windowOf, col("key"))
      .agg(count("*"), aggregates: _*)
  }

  private def sessionWindows(input: Dataset[Reading], random: Choices): DataFrame = {
    val gap = oneOf(
      random,
      lit("2 seconds"),
      lit("15 seconds"),
      expr("if(value % 2 = 0, '1 second', '8 seconds')")
    )
    keyed(timed(input, random), random)
      .groupBy(session_window(col("ts"), gap), col("key"))
      .agg(count("*"), aggregates: _*)
  }

  private def distinctSeconds(input: Dataset[Reading], random: Choices): DataFrame =
    timed(
      input.withColumn("ts", date_trunc("second", col("ts"))).as[Reading],
      random
    )
      .select("key", "ts")
      .dropDuplicates("key", "ts")

  /** The input with the form of keys of the query. */
  private def keyed(input: Dataset[Reading], random: Choices): DataFrame =
    input.withColumn("key", random.keyForm.column(col("key")))

  private def sides(rows: DataFrame): (DataFrame, DataFrame) =
    (rows.filter("left").drop("left"), rows.filter("not left").drop("left"))

  private def boundedJoin(how: String)(input: Dataset[Reading], random: Choices): DataFrame =
    joined(how, keyed(timed(input, random), random), random)

  private def joined(how: String, rows: DataFrame, random: Choices): DataFrame = {
    val (left, right) = sides(rows)
    val bounds = oneOf(
      random,
      "r.ts between l.ts - interval 5 seconds and l.ts + interval 5 seconds",
      "r.ts >= l.ts and r.ts < l.ts + interval 10 seconds and l.value < r.value"
    )
    left.as("l").join(right.as("r"), expr(s"l.key = r.key and $bounds"), how)
  }

  private def windowJoin(how: String)(input: Dataset[Reading], random: Choices): DataFrame = {
    val (left, right) = sides(keyed(timed(input, random), random))
    val size = oneOf(random, "1 second", "5 seconds")
    def side(rows: DataFrame, value: String): DataFrame =
      rows.select(col("key"), window(col("ts"), size).as("w"), col("value").as(value))
    side(left, "lv").join(side(right, "rv"), Seq("key", "w"), how)
  }

  private def countByWindow(input: DataFrame): DataFrame =
    input.groupBy(window(col("ts"), "15 seconds")).agg(count("*"), min("key"), max("key"))

  /** Events without null keys, because functions on groups take a primitive key. */
  private def events(input: Dataset[Reading], random: Choices): Dataset[Event] = {
    val session = input.sparkSession
    import session.implicits._
    timed(input, random)
      .select(coalesce($"key", lit(-1L)).as("key"), $"ts", $"value")
      .as[Event]
  }

  private def flatMapped(mode: OutputMode, timeout: GroupStateTimeout)(
      input: Dataset[Reading],
      random: Choices
  ): DataFrame = {
    val session = input.sparkSession
    import session.implicits._
    events(input, random)
      .groupByKey(_.key)
      .flatMapGroupsWithState(mode, timeout)(FlatMapGroupsWithStateSuite.counted(timeout))
      .toDF()
  }

  private def mapped(input: Dataset[Reading], random: Choices): DataFrame = {
    val session = input.sparkSession
    import session.implicits._
    val timeout = GroupStateTimeout.NoTimeout()
    events(input, random)
      .groupByKey(_.key)
      .mapGroupsWithState[Running, Emitted](timeout) {
        (key: Long, rows: Iterator[Event], state: GroupState[Running]) =>
          FlatMapGroupsWithStateSuite.counted(timeout)(key, rows, state).next()
      }
      .toDF()
  }

  private def balances(events: Dataset[Event]): Dataset[Balance] = {
    val session = events.sparkSession
    import session.implicits._
    events.groupByKey(_.key).transformWithState(new Ledger, "ts", Append)
  }

  private def openedBalances(input: Dataset[Reading], random: Choices): DataFrame = {
    val session = input.sparkSession
    import session.implicits._
    val openings = Seq(Opening(0, 1000), Opening(2, 2000), Opening(-1, 3000)).toDS()
    events(input, random)
      .groupByKey(_.key)
      .transformWithState(new OpenedLedger, "ts", Append, openings.groupByKey(_.key))
      .toDF()
  }

  /** A limit on equal rows, because Spark does not define which rows remain. */
  private def limited(input: Dataset[Reading], random: Choices): DataFrame =
    input.select(lit("row")).limit(50 + random.nextInt(250))
}
