package org.apache.spark.sql.execution.streaming.state.cleancut.aggregation

import java.nio.file.Path
import java.sql.Timestamp

import scala.collection.mutable
import scala.util.Random

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{Column, DataFrame, Encoders}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreRestoreExec
import org.apache.spark.sql.execution.streaming.runtime.{MemoryStream, StreamingQueryWrapper}
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.OutputMode

import io.cleancut.{CleancutExtensions, CleancutStateStoreProvider}
import io.cleancut.e2e.StoredState
import io.cleancut.testkit.{Draws, LoadedStores, LongTest, SmallQueries, TestDirectory}

/** An input row. A price may have more digits than a long. */
final case class Sale(
    shop: Option[Long],
    at: Timestamp,
    amount: Long,
    rate: Double,
    price: BigDecimal
)

/**
 * Compares streaming aggregations with the plan of [[AggregationRule]] to Spark's own, on
 * Cleancut's provider and on RocksDB. Each epoch has the same rows and the end the same state, to
 * the last bit of a double, whether the rule is enabled, disabled, or changed at a restart.
 */
class MergedAggregationSuite extends AnyFunSuite with BeforeAndAfterAll {
  import MergedAggregationSuite._

  private lazy val spark: SparkSession = SmallQueries.session("local[2]")(
    _.config("spark.sql.extensions", classOf[CleancutExtensions].getName)
      .config("spark.sql.streaming.checkpointFileManagerClass", FileManager)
  )

  override protected def afterAll(): Unit = {
    LoadedStores.stop()
    spark.stop()
  }

  for {
    (mode, query) <- Seq[(OutputMode, DataFrame => DataFrame)](
      OutputMode.Update() -> (_.groupBy("shop").agg(functions.head, functions.tail: _*)),
      OutputMode.Complete() -> (_.groupBy("shop").agg(functions.head, functions.tail: _*)),
      OutputMode.Append() -> inWindows,
      OutputMode.Update() -> inWindows
    )
    format <- Seq(1, 2)
    compiled <- Seq(false, true)
  } {
    val grouping = if (query eq inWindows) "windows" else "keys"
    val how = if (compiled) "compiled" else "interpreted"
    // A compiled test takes twenty seconds.
    val isUsual = Usual.contains((mode, grouping, format, compiled))
    val tags = if (isUsual) Nil else Seq(LongTest)
    test(s"aggregation of $grouping, mode $mode, format $format, $how", tags: _*) {
      val confs = Map(
        "spark.sql.streaming.aggregation.stateFormatVersion" -> format.toString,
        "spark.sql.codegen.wholeStage" -> compiled.toString,
        "spark.sql.codegen.factoryMode" -> (if (compiled) "CODEGEN_ONLY" else "NO_CODEGEN")
      )
      val runs = Variants.map { case (name, provider, merged) =>
        name -> run(confs + (Provider -> provider), merged, mode, query)
      }
      val (_, sparks) = runs.last
      assert(sparks.epochs.values.map(_.size).sum > 20 && sparks.state.values.flatten.nonEmpty)
      for ((name, result) <- runs) {
        assert(result.epochs == sparks.epochs, name)
        assert(result.state == sparks.state, name)
      }
      val merged = runs.map { case (name, result) => name -> result.plans.map(mergers) }.toMap
      assert(merged("on") == Seq.fill(Steps)(1))
      assert(merged("turned") == Seq.tabulate(Steps)(_ % 2))
      assert(merged("off") ++ merged("RocksDB") == Seq.fill(2 * Steps)(0))
      // A partial one before the exchange, and a merging one after it.
      assert(runs.head._2.plans.map(aggregations) == Seq.fill(Steps)(2))
      assert(sparks.plans.map(aggregations) == Seq.fill(Steps)(4))
    }
  }

  for {
    (what, query) <- Seq[(String, DataFrame => DataFrame)](
      "of all rows" -> (_.agg(functions.head, functions.tail: _*)),
      "with object state" -> (_.groupBy("shop")
        .agg(count("*"), sort_array(collect_set("amount")))),
      "with sorting" -> (_.groupBy("shop").agg(max(col("amount").cast("string"))))
    )
  } test(s"an aggregation $what keeps the plan of Spark") {
    val mode = OutputMode.Update()
    val ours = run(Map(Provider -> Cleancut), _ => true, mode, query)
    val theirs = run(Map(Provider -> RocksDb), _ => true, mode, query)
    assert(ours.epochs == theirs.epochs)
    assert(ours.plans.map(mergers) == Seq.fill(Steps)(0))
    assert(ours.plans.forall(_.exists(_.isInstanceOf[StateStoreRestoreExec])))
  }

  test("a grouping of coalesced input keeps its exchange, and its groups after a restart") {
    TestDirectory.use("cleancut-aggregation") { root =>
      val session = spark.newSession()
      session.conf.set(Provider, Cleancut)
      val source = MemoryStream(Encoders.product[Sale], session)
      val epochs = mutable.TreeMap.empty[Long, Seq[String]]
      val plans = for ((partitions, step) <- Seq(1, 2).zipWithIndex) yield {
        source.addData(sales(step))
        val counts = source.toDF().coalesce(partitions).groupBy("shop").count()
        runEpochs(counts, OutputMode.Update(), root, epochs)
      }
      val exchanged = plans.map { plan =>
        val merger = plan.collectFirst { case merged: MergedRestoreExec => merged }
        merger.toSeq.flatMap(_.collect { case exchange: ShuffleExchangeLike => exchange })
      }
      val partitions = session.conf.get("spark.sql.shuffle.partitions").toInt
      assert(partitions > 1)
      assert(
        exchanged.map(_.map(_.outputPartitioning.numPartitions)) == Seq.fill(2)(Seq(partitions))
      )
      assert(plans.forall(_.toString.contains("StateStoreRestore")))
      val updated = sales(1).map(_.shop).toSet
      val expected = (sales(0) ++ sales(1)).map(_.shop).filter(updated).groupBy(identity).map {
        case (shop, all) => s"[${shop.fold("null")(_.toString)},${all.size}]"
      }
      assert(epochs.last._2 == expected.toSeq.sorted)
    }
  }

  /** Restarts the query for each step, with its setting of the rule. */
  private def run(
      confs: Map[String, String],
      merged: Int => Boolean,
      mode: OutputMode,
      query: DataFrame => DataFrame
  ): Run = TestDirectory.use("cleancut-aggregation") { root =>
    val session = spark.newSession()
    confs.foreach { case (key, value) => session.conf.set(key, value) }
    val source = MemoryStream(Encoders.product[Sale], session)
    val epochs = mutable.TreeMap.empty[Long, Seq[String]]
    val plans = for (step <- 0 until Steps) yield {
      session.conf.set(Switch, merged(step))
      source.addData(sales(step))
      runEpochs(query(source.toDF().coalesce(1)), mode, root, epochs)
    }
    Run(epochs.toMap, StoredState.read(session, root), plans)
  }

  private def runEpochs(
      result: DataFrame,
      mode: OutputMode,
      root: Path,
      epochs: mutable.Map[Long, Seq[String]]
  ): SparkPlan = {
    val started = result.writeStream
      .outputMode(mode)
      .option("checkpointLocation", root.toString)
      .foreachBatch { (batch: DataFrame, epoch: Long) =>
        epochs(epoch) = batch.collect().map(_.toString).sorted.toSeq
      }
      .start()
    try {
      started.processAllAvailable()
      started.asInstanceOf[StreamingQueryWrapper].streamingQuery.lastExecution.executedPlan
    } finally started.stop()
  }
}

object MergedAggregationSuite {
  private val Provider = "spark.sql.streaming.stateStore.providerClass"
  private val Switch = "spark.sql.streaming.stateStore.cleancut.mergedAggregation"
  private val Cleancut = classOf[CleancutStateStoreProvider].getName
  private val RocksDb = classOf[RocksDBStateStoreProvider].getName
  private val FileManager = classOf[FileSystemBasedCheckpointFileManager].getName
  private val Usual = Seq((OutputMode.Append(), "windows", 2, false))
  private val Seed = 4711
  private val Steps = if (Draws.areAll) 4 else 2

  /** The others are compared with the last one. */
  private val Variants = Seq[(String, String, Int => Boolean)](
    ("on", Cleancut, _ => true),
    ("turned", Cleancut, _ % 2 == 1),
    ("off", Cleancut, _ => false),
    ("RocksDB", RocksDb, _ => true)
  )

  /** A query's output and state, with the plan of the last epoch of each step. */
  final private case class Run(
      epochs: Map[Long, Seq[String]],
      state: Map[String, Seq[String]],
      plans: Seq[SparkPlan]
  )

  private val inWindows: DataFrame => DataFrame =
    _.withWatermark("at", "5 seconds")
      .groupBy(window(col("at"), "4 seconds", "2 seconds"), col("shop"))
      .agg(functions.head, functions.tail: _*)

  /**
   * Functions whose buffers begin with zero, with null or with other values, or depend on the
   * order.
   */
  private def functions: Seq[Column] = Seq(
    count("*"),
    count("shop"),
    sum("amount"),
    sum("rate"),
    sum("price"),
    avg("amount"),
    avg("price"),
    min("rate"),
    max("price"),
    stddev("rate"),
    var_pop("rate"),
    skewness("rate"),
    kurtosis("rate"),
    // Spark 4.2 divides by zero where all values of a column are equal.
    corr(col("rate"), col("rate") * col("amount")),
    covar_samp("rate", "amount"),
    bit_xor(col("amount")),
    bool_and(col("amount") > 3),
    first("rate"),
    last(when(col("amount") > 50, col("rate")), ignoreNulls = true),
    max_by(col("rate"), col("amount")),
    count_if(col("rate") > 0.5),
    regr_slope(col("rate"), col("amount"))
  ).zipWithIndex.map { case (function, at) => function.as(s"f$at") }

  private def sales(step: Int): Seq[Sale] = {
    val random = new Random(Seed + step)
    Seq.fill(150) {
      Sale(
        shop = Option.when(random.nextInt(10) > 0)(random.nextInt(20).toLong),
        at = new Timestamp(1700000000000L + step * 10000 + random.nextInt(10000)),
        amount = random.nextInt(100).toLong,
        rate = random.nextDouble(),
        price = BigDecimal(BigInt(50, random), 2)
      )
    }
  }

  private def mergers(plan: SparkPlan): Int = plan.collect { case m: MergedRestoreExec => m }.size

  private def aggregations(plan: SparkPlan): Int =
    plan.collect { case aggregate: BaseAggregateExec => aggregate }.size
}
