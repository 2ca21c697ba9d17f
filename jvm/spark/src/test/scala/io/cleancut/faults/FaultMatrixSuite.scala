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
 * Every fault of the proxy at every step that the requests of a query are, on a real server: no row
 * may be lost, doubled or late, and nothing may be left behind.
 *
 * `CLEANCUT_FAULTS=all` takes the whole matrix, else some of it is drawn; `CLEANCUT_SEED` repeats.
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
        // Spark's own check would refuse a function of foreachBatch that skips.
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

  test("the steps that a query takes are those that are known", LongTest) {
    note(s"CLEANCUT_SEED=$seed repeats this")
    val (first, later) = in(new Random(seed))(_.enumerate(KnownSteps.later))
    assert(first -- later == KnownSteps.first)
    assert(later -- KnownSteps.possible == KnownSteps.later)
  }

  for (kind <- chosen(if (areAll) FaultKind.all else FaultKind.quick, OfKinds))
    test(s"a query takes all of its steps through this, and is right: $kind") {
      val steps = chosen(KnownSteps.all.filter(kind.concerns), OfAllSteps)
      val plans = steps.map(Plan(_, kind, isLasting = false))
      val random = new Random(seed ^ kind.name.hashCode)
      inject(plans)(in(random)(_.all(plans)))
    }

  for (kind <- chosen(FaultKind.lasting, OfLasting))
    test(s"a query that dies of this goes on where it was, at each of its steps: $kind") {
      val random = new Random(seed ^ kind.name.hashCode)
      def plans(steps: Set[Step]) =
        chosen(steps.filter(kind.concerns).toSeq.sortBy(_.toString), OfSteps)
          .map(Plan(_, kind, isLasting = true))
      // What only the first start of a query does needs a query of its own.
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
    test(s"an upload that is refused cannot be aborted ${often(isLasting)} for this: $kind") {
      val plan = Plan(KnownSteps.uploadAbort, kind, isLasting)
      inject(Seq(plan))(in(new Random(seed ^ kind.name.hashCode))(_.aborting(plan)))
    }

  test("nothing was lost, doubled, out of order or left behind") {
    tally.sums.foreach(info(_))
    Seq(false, true).flatMap(tally.table).foreach(info(_))
    assert(tally.rows == RowCounts.None)
    assert(tally.remains == Remains(Nil, Nil))
  }

  private def inject(plans: Seq[Plan])(strikes: => Map[Plan, Int]): Assertion = {
    val struck = withClue(s"CLEANCUT_SEED=$seed repeats this: ")(strikes)
    tally.injected(struck)
    val spared = plans.filterNot(plan => struck.get(plan).exists(_ > 0))
    assert(spared.isEmpty, "are planned faults that were never injected")
  }

  /** Runs a query, and checks what it gave and what it left. */
  private def in[A](random: Random)(body: FaultRun => A): A = {
    val location = s"s3://${S3Server.Bucket}/faults/${runs.incrementAndGet()}"
    val session = spark.newSession()
    val format = 1 + random.nextInt(2)
    session.conf.set(s"$State.checkpointFormatVersion", format)
    // In format 2 Spark itself refuses an epoch that no task has run.
    val skips = format == 1 && random.nextBoolean()
    val query = new FaultedQuery(session, location, skips, seals = random.nextBoolean())
    try {
      val run = new FaultRun(query, proxy, random)
      val result = body(run)
      proxy.reset()
      tally.ended(query, run, check(query))
      result
    } finally query.close()
  }

  private def check(query: FaultedQuery): Remains = {
    assert(query.sink.totals == query.batch().collect().toSet, "is not what a batch gives")
    val store = S3TestStore.open(server.endpoint, query.location)
    try Remains.of(store)
    finally store.close()
  }
}

object FaultMatrixSuite {
  private val State = "spark.sql.streaming.stateStore"
  private val FileManagerKey = "spark.sql.streaming.checkpointFileManagerClass"

  /** How many are drawn where not all are taken. */
  private val OfKinds = 1
  private val OfLasting = 1
  private val OfSteps = 1
  private val OfAllSteps = 2
  // They wait for deadlines.
  private val OfAborts = 0

  private def often(isLasting: Boolean): String = if (isLasting) "at all" else "at once"

  private val areAll = sys.env.get("CLEANCUT_FAULTS").contains("all")

  private def chosen[A](all: Seq[A], count: Int): Seq[A] =
    if (areAll) all
    else new Random(seed).shuffle(all).take(count)

  private val seed = sys.env
    .get("CLEANCUT_SEED")
    .orElse(sys.env.get("CLEANCUT_FIRST_SEED"))
    .fold(System.nanoTime())(_.toLong)
}
