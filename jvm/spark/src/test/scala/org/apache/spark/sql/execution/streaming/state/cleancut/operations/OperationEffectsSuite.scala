package org.apache.spark.sql.execution.streaming.state.cleancut.operations

import java.nio.file.{Files, Path}

import scala.collection.mutable

import org.apache.hadoop.fs.{Path => HadoopPath}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{Column, DataFrame}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.RootRecords
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.rows.OfflineEdit
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.start.FirstState
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.{
  OfflinePlace,
  OfflineSource,
  StateRows
}
import org.apache.spark.sql.execution.streaming.state.cleancut.session.TestedSpark
import org.apache.spark.sql.functions.{col, count, lit, struct, sum}
import org.apache.spark.sql.streaming.Trigger

import io.cleancut.conf.Keys
import io.cleancut.error.CleancutException
import io.cleancut.format.cut.{Origin, SinkEpochs, StoredSinkEpochs}
import io.cleancut.testkit.{LoadedStores, StepFileSystem, TestDirectory}

/**
 * Offline operations on a count by key: the state and the epoch that each creates, the plans that
 * it refuses, and the records that a new checkpoint has.
 */
class OperationEffectsSuite extends AnyFunSuite with StepFilesSession {
  import OperationEffectsSuite._

  private def inQuery(body: Counts => Any): Unit = TestDirectory.use("operation-effects") { home =>
    body(new Counts(session, home))
    ()
  }

  private def withoutCuts(body: => Unit): Unit = {
    session.conf.set(Keys.Cuts.name, "false")
    try body
    finally session.conf.set(Keys.Cuts.name, "true")
  }

  private def run(operation: OfflineOperation, location: String): OfflinePlan = {
    LoadedStores.stop()
    operation.run(session, location)
  }

  private def refusal(id: String)(body: => Any): String = {
    val refused = intercept[CleancutException](body)
    assert(refused.getErrorId == id, refused.getMessage)
    refused.getMessage
  }

  /** The operation with the epochs that its plan has now. */
  private def planned(operation: OfflineOperation, location: String): OfflineOperation = {
    val plan = operation.plan(session, location)
    operation.copy(planned = Some(PlannedEpochs(plan.epoch, plan.source, plan.last)))
  }

  private def place(location: String) = OfflinePlace.of(session, location, "test")

  private def recordsOf(location: String) =
    new RootRecords(new HadoopPath(location), place(location).files)

  private def cloneOf(source: OfflineSource, target: String, isOtherQuery: Boolean) =
    OfflineOperation.copy(source, CloneTarget(target, isOtherQuery))

  test("each rescale by reference keeps the counts, and so does the next epoch") {
    inQuery { query =>
      query.run()
      query.run()
      for (number <- Seq(4, 2, 3, 1)) {
        assert(!run(OfflineOperation.rescale(number), query.location).copiesRows)
        assert(query.counts() == query.expected(), s"$number partitions")
        query.run()
        assert(query.counts() == query.expected(), s"after an epoch with $number partitions")
      }
    }
  }

  test("a rescale without cuts moves the stores of removed partitions away") {
    withoutCuts(inQuery { query =>
      query.run()
      val last = run(OfflineOperation.rescale(1), query.location).last
      val root = query.home.resolve("q/cleancut")
      assert(Files.exists(root.resolve("stores/0/0")) && !Files.exists(root.resolve("stores/0/1")))
      assert(Files.exists(root.resolve(s"retired/${last + 1}/0/1")))
      assert(query.counts() == query.expected())
    })
  }

  test("a rollback takes the epoch after an unused one, and the query reads its input again") {
    inQuery { query =>
      (1 to 3).foreach(_ => query.run())
      val plan = run(OfflineOperation.rollback(OfflineSource.Epoch(0L)), query.location)
      assert((plan.epoch, plan.source, plan.last) == ((4L, 0L, 2L)))
      assert(query.counts() == query.expected(files = 1))
      query.rerun()
      assert(query.counts() == query.expected())
    }
  }

  test("an undone rollback returns to the state before it") {
    inQuery { query =>
      (1 to 3).foreach(_ => query.run())
      run(OfflineOperation.rollback(OfflineSource.Epoch(0L)), query.location)
      run(OfflineOperation.rollback(OfflineSource.BeforeRollback), query.location)
      assert(query.counts() == query.expected())
      query.run()
      assert(query.counts() == query.expected())
    }
  }

  test("a rollback is refused if input files of later epochs are missing") {
    inQuery { query =>
      (1 to 3).foreach(_ => query.run())
      Files.delete(query.input(2))
      // The state after epoch 1 includes the files before.
      Files.delete(query.input(0))
      val rollback = OfflineOperation.rollback(OfflineSource.Epoch(1L))
      assert(rollback.plan(session, query.location).missingFiles == 1)
      val message = refusal(Refused)(run(rollback, query.location))
      assert(message.contains("1 of the 1 input files"))
      run(rollback.copy(allowsMissingInput = true), query.location)
      assert(query.counts() == query.expected(files = 2))
    }
  }

  test("an operation is refused while the query runs") {
    inQuery { query =>
      query.run()
      val running = query.start(Trigger.ProcessingTime("1 hour"))
      try
        for (operation <- Seq(OfflineOperation.rescale(4), OfflineOperation.ToRocksDb))
          assert(
            refusal(Refused)(operation.plan(session, query.location))
              .contains("runs in this application")
          )
      finally running.stop()
    }
  }

  test("a plan is outdated after another epoch, and after its savepoint has another one") {
    inQuery { query =>
      (1 to 3).foreach(_ => query.run())
      val savepoints = place(query.location).cuts.get._1.savepoints
      savepoints.pin("name", 0L)
      val rollback =
        planned(OfflineOperation.rollback(OfflineSource.Savepoint("name")), query.location)
      savepoints.unpin("name")
      savepoints.pin("name", 1L)
      refusal(Outdated)(run(rollback, query.location))
      // The rollback has the same source as planned, and would discard the other epoch.
      val operations =
        Seq(OfflineOperation.rescale(4), OfflineOperation.rollback(OfflineSource.Epoch(0L)))
          .map(planned(_, query.location))
      query.run()
      operations.foreach(operation => refusal(Outdated)(run(operation, query.location)))
      assert(query.counts() == query.expected())
    }
  }

  test("a clone has the planned state, although the query has committed since") {
    inQuery { query =>
      query.run()
      val target = query.at("clone")
      val clone = planned(cloneOf(OfflineSource.Last, target, isOtherQuery = true), query.location)
      query.run()
      assert(run(clone, query.location).source == 0L)
      assert(query.counts(target) == query.expected(files = 1))
      assert(place(query.location).cuts.get._1.savepoints.all().isEmpty)
    }
  }

  test("a clone of the same query continues its checkpoint, and one of another query does not") {
    inQuery { query =>
      query.run()
      for ((name, isOther) <- Seq("same" -> false, "other" -> true)) {
        val target = query.at(name)
        run(cloneOf(OfflineSource.Last, target, isOther), query.location)
        val origins = recordsOf(target).lineage().origins
        val origin = Origin(place(query.location).location, generation = 1L, epoch = Some(0L))
        assert(origins == Seq(origin).filterNot(_ => isOther), name)
      }
    }
  }

  test("a clone of the same query has its published epochs, and one of another query does not") {
    withoutCuts(inQuery { query =>
      query.run()
      val published = SinkEpochs.Empty.published(Seq("sink"), 0L)
      recordsOf(query.location).write(StoredSinkEpochs(0L, published))
      for ((name, isOther) <- Seq("same" -> false, "other" -> true)) {
        val target = query.at(name)
        run(cloneOf(OfflineSource.Last, target, isOther), query.location)
        assert(
          recordsOf(target).sinks().map(_.sinks) == Option.when(!isOther)(published),
          name
        )
      }
    })
  }

  test("files of Spark's provider are moved so that the snapshot of a store is the last") {
    assume(TestedSpark.OperationsWriteForSpark)
    withoutCuts(inQuery { query =>
      query.run()
      LoadedStores.stop()
      val moved = mutable.Buffer.empty[Path]
      StepFileSystem.counting { (_, call) =>
        call match {
          case Moved(target) if target.contains("/q/state/") => moved += Path.of(target)
          case _                                             => ()
        }
      } {
        OfflineOperation.ToRocksDb.run(session, query.location)
        ()
      }
      val stores =
        moved.groupBy(file => if (isShared(file)) file.getParent.getParent else file.getParent)
      assert(stores.size == partitions)
      for ((store, files) <- stores)
        assert(
          files.size > 1 && files.indexWhere(_.toString.endsWith(".zip")) == files.size - 1,
          store
        )
    })
  }

  test("a query that is bootstrapped counts on from the given rows") {
    inQuery { query =>
      val rows = allKeys(value = col("id") * 10)
      val state = Seq(OfflineEdit(Counted, rows))
      val plan =
        FirstState.bootstrap(session, query.location, query.rows, "update", state, true, None, true)
      assert((plan.epoch, plan.source) == ((1L, -1L)))
      val twice = refusal(Refused) {
        val again = query.at("twice")
        FirstState.bootstrap(session, again, query.rows, "update", state ++ state, true, None, true)
      }
      assert(twice.contains("given twice"))
      query.run()
      assert(query.counts() == (0L until KeyCount).map(key => key -> (key * 10 + 1)))
    }
  }

  /** Values of all keys. */
  private def allKeys(value: Column): DataFrame = session
    .range(KeyCount)
    .select(struct(col("id").as("k")).as("key"), struct(value.as("count")).as("value"))

  private def migrate(
      query: Counts,
      target: String,
      form: DataFrame,
      rows: Seq[OfflineEdit],
      planned: Option[PlannedEpochs]
  ) = FirstState.migrate(
    session,
    query.location,
    target,
    form,
    "update",
    rows,
    isWithCuts = None,
    isOtherQuery = false,
    fileSink = None,
    planned
  )

  test("a migrated query has the rows that are given, and those of unchanged state") {
    inQuery { query =>
      query.run()
      query.run()
      LoadedStores.stop()
      val epochs = PlannedEpochs(epoch = 3L, source = 1L, last = 1L)
      val kept = query.at("kept")
      assert(migrate(query, kept, query.rows, Nil, Some(epochs)).epoch == 3L)
      assert(query.counts(kept) == query.expected())
      val edited = query.at("edited")
      val rows = allKeys(lit(7L)).where("key.k < 3")
      migrate(query, edited, query.rows, Seq(OfflineEdit(Counted, rows)), Some(epochs))
      assert(query.counts(edited) == (0L until 3L).map(_ -> 7L))
      query.run()
      refusal(Outdated)(migrate(query, query.at("late"), query.rows, Nil, Some(epochs)))
    }
  }

  test("a migration to other values requires their rows") {
    inQuery { query =>
      query.run()
      LoadedStores.stop()
      val form = query.grouped.agg(count(lit(1)).as("count"), sum("k").as("sum"))
      val message = refusal(Refused)(migrate(query, query.at("sums"), form, Nil, None))
      assert(message.contains("rows are required for"))
    }
  }
}

private object OperationEffectsSuite {
  val KeyCount = 24L
  val Counted: StateRows = StateRows(0L, "default", "default")
  val Refused = "CLEANCUT_OPERATION_REFUSED"
  val Outdated = "CLEANCUT_PLAN_OUTDATED"
  private val Moved = "rename .* to [a-z]*:(.*)".r

  private def isShared(file: Path) = Set("SSTs", "logs")(file.getParent.getFileName.toString)

  /** A count by key, each run of which processes one more file with every key. */
  final class Counts(session: SparkSession, val home: Path) {
    private val files = Files.createDirectory(home.resolve("in"))
    private var processed = 0

    val location: String = at("q")

    def at(name: String): String = s"${StepFileSystem.Scheme}:${home.resolve(name)}"

    def input(number: Int): Path = files.resolve(s"$number.json")

    def grouped = session.readStream
      .schema("k long")
      .option("maxFilesPerTrigger", 1)
      .json(files.toString)
      .groupBy(col("k"))

    def rows: DataFrame = grouped.count()

    def start(trigger: Trigger) = rows.writeStream
      .outputMode("update")
      .format("noop")
      .option("checkpointLocation", location)
      .trigger(trigger)
      .start()

    /** Processes one more file. */
    def run(): Unit = {
      val lines = (0L until KeyCount).map(key => s"""{"k":$key}""")
      Files.writeString(input(processed), lines.mkString("\n"))
      processed += 1
      rerun()
    }

    def rerun(): Unit = {
      LoadedStores.stop()
      start(Trigger.AvailableNow()).awaitTermination()
      LoadedStores.stop()
    }

    /** The stored counts by key; a key that is in two partitions is there twice. */
    def counts(at: String = location): Seq[(Long, Long)] = {
      LoadedStores.stop()
      OfflineOperation
        .state(session, at, Counted)
        .selectExpr("key.k", "value.count")
        .collect()
        .map(row => row.getLong(0) -> row.getLong(1))
        .toSeq
        .sorted
    }

    def expected(files: Int = processed): Seq[(Long, Long)] =
      (0L until KeyCount).map(_ -> files.toLong)
  }
}
