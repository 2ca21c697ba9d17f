package io.cleancut.faults

import java.util.concurrent.atomic.AtomicInteger

import scala.util.Random

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.classic.SparkSession

import io.cleancut.{CleancutCheckpointFileManager, CleancutExtensions, CleancutStateStoreProvider}
import io.cleancut.objectstore.S3TestStore
import io.cleancut.testkit.{LongTest, ProxiedServer, S3Server, SmallQueries}

/**
 * Each fault of the proxy at each step of a query's requests, on a real server. No row may be lost,
 * duplicated or late, and no garbage may remain.
 *
 * `CLEANCUT_FAULTS=all` runs the complete matrix instead of a random part. `CLEANCUT_SEED` repeats
 * a run.
 */
class FaultMatrixSuite extends AnyFunSuite with ProxiedServer {
  import FaultMatrixSuite._

  private val runs = new AtomicInteger
  private val tally = new FaultTally
  private var spark: SparkSession = _

  override protected def beforeAll(): Unit = {
    super.beforeAll()
    spark = SmallQueries.session("local[2]")(
      _.config("spark.sql.shuffle.partitions", NumberedInput.Partitions.toString)
        .config(s"$State.providerClass", classOf[CleancutStateStoreProvider].getName)
        .config(FileManagerKey, classOf[CleancutCheckpointFileManager].getName)
        .config("spark.sql.extensions", classOf[CleancutExtensions].getName)
        .config(s"$State.minDeltasForSnapshot", "1")
        .config(s"$State.maintenanceInterval", "100ms")
        // Spark's validation refuses a `foreachBatch` function that skips an epoch.
        .config(s"$State.commitValidation.enabled", "false")
        .config("spark.sql.streaming.minBatchesToRetain", FaultedQuery.EpochsToKeep.toString)
        .config(s"$State.cleancut.s3.endpoint", endpoint)
        .config(s"$State.cleancut.s3.region", "us-east-1")
        .config(s"$State.cleancut.requestTimeout", "2500ms")
    )
  }

  override protected def afterAll(): Unit = {
    spark.stop()
    super.afterAll()
  }

  test("a query has exactly the known steps", LongTest) {
    note(s"CLEANCUT_SEED=$seed repeats this")
    val (first, later) = in(new Random(seed))(_.enumerate(KnownSteps.later))
    assert(first -- later -- KnownSteps.possible == KnownSteps.first)
    assert(later -- KnownSteps.possible == KnownSteps.later)
  }

  for (kind <- chosen(if (areAll) FaultKind.all else FaultKind.quick, OfKinds))
    test(s"a query with this fault at each step returns the right rows: $kind") {
      val steps = chosen(KnownSteps.all.filter(kind.concerns), OfAllSteps)
      val plans = steps.map(Plan(_, kind, isLasting = false))
      val random = new Random(seed ^ kind.name.hashCode)
      inject(plans)(in(random)(_.all(plans)))
    }

  for (kind <- chosen(FaultKind.lasting, OfLasting))
    test(s"a query that fails with this fault at each step resumes: $kind") {
      val random = new Random(seed ^ kind.name.hashCode)
      def plans(steps: Set[Step]) =
        chosen(steps.filter(kind.concerns).toSeq.sortBy(_.toString), OfSteps)
          .map(Plan(_, kind, isLasting = true))
      // Steps of the first start of a query each require a new query.
      val first = plans(KnownSteps.first)
      first.foreach(plan => inject(Seq(plan))(in(random)(_.all(Seq(plan)))))
      val later = plans(KnownSteps.later)
      inject(later)(in(random)(run => later.flatMap(plan => run.all(Seq(plan))).toMap))
    }

  for {
    isLasting <- Seq(false, true)
    kinds = (if (isLasting) FaultKind.lasting else FaultKind.all)
      .filter(_.concerns(KnownSteps.uploadAbort))
    kind <- chosen(kinds, OfAborts)
  }
    test(s"the abort of a refused upload fails ${often(isLasting)} with this fault: $kind") {
      val plan = Plan(KnownSteps.uploadAbort, kind, isLasting)
      inject(Seq(plan))(in(new Random(seed ^ kind.name.hashCode))(_.aborting(plan)))
    }

  test("no row was lost, duplicated or out of order, and no garbage remained") {
    tally.sums.foreach(info(_))
    Seq(false, true).flatMap(tally.table).foreach(info(_))
    assert(tally.rows == RowCounts.None)
    assert(tally.remains == Remains(Nil, Nil))
  }

  private def inject(plans: Seq[Plan])(strikes: => Map[Plan, Int]): Assertion = {
    val struck = withClue(s"CLEANCUT_SEED=$seed repeats this: ")(strikes)
    tally.injected(struck)
    val spared = plans.filterNot(plan => struck.get(plan).exists(_ > 0))
    assert(spared.isEmpty, "these planned faults were never injected")
  }

  /** Runs a query, and checks its rows and its remaining objects. */
  private def in[A](random: Random)(body: FaultRun => A): A = {
    val location = s"s3://${S3Server.Bucket}/faults/${runs.incrementAndGet()}"
    val session = spark.newSession()
    val format = 1 + random.nextInt(2)
    session.conf.set(s"$State.checkpointFormatVersion", format)
    // In format 2 Spark refuses an epoch without tasks.
    val skips = format == 1 && random.nextBoolean()
    val seals = random.nextBoolean()
    session.conf.set(s"$State.cleancut.pipelinedCuts", random.nextBoolean())
    val query = new FaultedQuery(session, location, skips, seals)
    try {
      val run = new FaultRun(query, proxy, random)
      val result = body(run)
      proxy.reset()
      tally.ended(query, run, check(query))
      result
    } finally query.close()
  }

  private def check(query: FaultedQuery): Remains = {
    assert(
      query.sink.totals == query.batch().collect().toSet,
      "the rows differ from those of a batch"
    )
    val store = S3TestStore.open(server.endpoint, query.location)
    try Remains.of(store)
    finally store.close()
  }
}

object FaultMatrixSuite {
  private val State = "spark.sql.streaming.stateStore"
  private val FileManagerKey = "spark.sql.streaming.checkpointFileManagerClass"

  /** Sizes of the random part of the matrix. */
  private val OfKinds = 1
  private val OfLasting = 1
  private val OfSteps = 1
  private val OfAllSteps = 2
  // Aborts wait for deadlines.
  private val OfAborts = 0

  private def often(isLasting: Boolean): String = if (isLasting) "always" else "once"

  private val areAll = sys.env.get("CLEANCUT_FAULTS").contains("all")

  private def chosen[A](all: Seq[A], count: Int): Seq[A] =
    if (areAll) all
    else new Random(seed).shuffle(all).take(count)

  private val seed = sys.env
    .get("CLEANCUT_SEED")
    .orElse(sys.env.get("CLEANCUT_FIRST_SEED"))
    .fold(System.nanoTime())(_.toLong)
}
