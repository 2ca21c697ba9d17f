package io.cleancut.e2e

import java.nio.file.{Files, Path}
import java.util.concurrent.atomic.{AtomicInteger, AtomicReference}

import scala.collection.concurrent.TrieMap
import scala.util.{Failure, Random, Success, Try, Using}

import org.apache.commons.io.FileUtils
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.OfflineOperation
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.{
  OfflineSource,
  StateRows
}
import org.apache.spark.sql.execution.streaming.state.cleancut.session.TestedSpark
import org.apache.spark.sql.functions.{col, lit, struct}
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.{DataFrame, SparkSession, classic}

import io.cleancut.conf.Keys
import io.cleancut.error.CleancutException
import io.cleancut.testkit.{
  LoadedStores,
  LongTest,
  Seeded,
  SessionPool,
  SmallQueries,
  StepFileSystem,
  TestDirectory
}
import io.cleancut.{CleancutCheckpointFileManager, CleancutStateStoreProvider}

/**
 * Offline operations that are killed, or overtaken by another driver, at a random call of the file
 * system. Then the query starts with Cleancut's or Spark's file manager, or the operation is
 * repeated first. A start must be refused, or return the counts before or after the operation.
 * Later runs load their state from files and must agree with it.
 */
class InterruptedOperationsSuite extends AnyFunSuite with RocksDbComparison with Seeded {
  import InterruptedOperationsSuite._

  override protected lazy val spark: SparkSession = SmallQueries.session(master)(
    _.config("spark.sql.extensions", classOf[io.cleancut.CleancutExtensions].getName)
      .config(s"spark.hadoop.fs.${StepFileSystem.Scheme}.impl", classOf[StepFileSystem].getName)
      .config("spark.sql.streaming.stateStore.maintenanceShutdownTimeout", "2")
      .config("spark.sql.streaming.stateStore.maintenanceForceShutdownTimeout", "1")
  )

  private val sessions = new SessionPool(spark)
  private val prepared = TrieMap.empty[Place, Path]
  private val operations = Operations.filter(placesOf(_).nonEmpty)

  override protected def afterAll(): Unit = {
    prepared.values.foreach(TestDirectory.delete)
    super.afterAll()
  }

  test("interrupted operations leave the old or the new state") {
    checkAll(UsualSeeds)
  }

  test("many interrupted operations leave the old or the new state", LongTest) {
    checkAll(RandomRuns.seeds("CLEANCUT_OPERATIONS", default = LongRuns))
  }

  for (operation <- operations; place <- placesOf(operation))
    test(s"$operation on $place, killed at each step, leaves the old or the new state", LongTest) {
      val steps = stepsOf(operation, place)
      val wrong = (1 to steps).flatMap { step =>
        val trial = new Trial(operation, place, step, Event.Killed, new Random(step.toLong))
        outcome(trial).map(difference => s"$trial of $steps: $difference")
      }
      info(s"$steps steps")
      assert(wrong.isEmpty, wrong.mkString("\n", "\n", ""))
    }

  for (operation <- operations; place <- placesOf(operation))
    test(s"$operation on $place, twice concurrently, leaves the old or the new state", LongTest) {
      val steps = stepsOf(operation, place)
      forSeeds(RivalRuns) { random =>
        val step = 1 + random.nextInt(steps.max(1))
        val trial = new Trial(operation, place, step, Event.Rival, random)
        val wrong = outcome(trial)
        assert(wrong.isEmpty, s"$trial of $steps: $wrong")
      }
    }

  private val (killed, overtaken) = (new AtomicInteger, new AtomicInteger)
  private val (refused, deleted) = (new AtomicInteger, new AtomicInteger)

  private def count(counter: AtomicInteger): Unit = {
    counter.incrementAndGet()
    ()
  }

  private def checkAll(seeds: Seq[Long]) = {
    note(s"seeds ${seeds.head} to ${seeds.last}")
    Seq(killed, overtaken, deleted, refused).foreach(_.set(0))
    val wrong = seeds.flatMap { seed =>
      val random = RandomRuns.random(seed)
      val operation = RandomQuery.oneOf(random, operations: _*)
      val drawn =
        RandomQuery.oneOf(random, placesOf(operation).flatMap(one => Seq.fill(one.weight)(one)): _*)
      val place = withDeletedInput(drawn, seed)
      if (place.isCleaned) count(deleted)
      val step = 1 + random.nextInt(stepsOf(operation, place).max(1))
      val event = if (random.nextInt(4) > 0) Event.Killed else Event.Overtaken
      val trial = new Trial(operation, place, step, event, random)
      outcome(trial).map(difference => s"CLEANCUT_SEED=$seed $trial: $difference")
    }
    val counts = seeds.size +: Seq(killed, overtaken, deleted, refused).map(_.get) :+ wrong.size
    val row = counts.mkString(s"| ${seeds.head}–${seeds.last} | ", " | ", " |")
    info(s"for docs/project/campaign-records.md: $row")
    assert(wrong.isEmpty, wrong.mkString("\n", "\n", ""))
    assert(killed.get + overtaken.get > 0)
  }

  private def placesOf(operation: Operation): Seq[Place] =
    Places.filter { place =>
      val isWritten = place.isSparks && operation != ToCleancut
      operation.isFor(place) && (TestedSpark.OperationsWriteForSpark || !isWritten)
    }

  private val counted = TrieMap.empty[(Operation, Place), Int]

  /** Number of file system calls with an effect when the operation succeeds. */
  private def stepsOf(operation: Operation, place: Place): Int =
    counted.getOrElseUpdate(
      (operation, place),
      inCopy(place) { home =>
        StepFileSystem.counting((_, _) => ()) {
          sessions.use(settings(place)) { session =>
            val done = Try(run(operation, session, home))
            done.failed.foreach(e => if (!isRefusal(place, e)) throw e)
          }
        }
      }
    )

  private def isRefusal(place: Place, e: Throwable): Boolean =
    place.isNarrow && e.getMessage.contains(StrictKey) ||
      place.isCleaned && e.getMessage.contains(MissingInput)

  /** The difference from the expected state, if any. */
  private def outcome(trial: Trial): Option[String] = inCopy(trial.place) { home =>
    sessions.use(settings(trial.place)) { session =>
      val query = new Counts(session, home)
      val rival = new AtomicReference[Try[Unit]](Success(()))
      var result: Try[Unit] = Success(())
      StepFileSystem.counting { (number, call) =>
        trial.event match {
          case Event.Killed if number >= trial.step =>
            if (number == trial.step) count(killed)
            throw new StepFileSystem.Killed(call)
          case Event.Overtaken if number == trial.step && query.plan() => count(overtaken)
          case Event.Rival if number == trial.step                     =>
            rival.set(runConcurrently(trial.operation, trial.place, home))
          case _ => ()
        }
      } { result = Try(run(trial.operation, session, home)) }
      LoadedStores.stop()
      if (trial.isRepeated) Try(run(trial.operation, session, home))
      LoadedStores.stop()
      val unclear =
        if (trial.event == Event.Rival) Seq(result, rival.get).flatMap(unclearIn) else Nil
      unclear.headOption.orElse(check(trial, query, session))
    }
  }

  /** The failure of an operation, if none of its causes has an error ID of Cleancut. */
  private def unclearIn(operation: Try[Unit]): Option[String] = operation.failed.toOption.collect {
    case e if !RandomRuns.causes(e).exists(_.isInstanceOf[CleancutException]) =>
      s"it ended with ${RandomRuns.ending(operation)}"
  }

  /** Runs a second operation while the first one waits in a call of the file system. */
  private def runConcurrently(operation: Operation, place: Place, home: Path): Try[Unit] = {
    var result: Try[Unit] = Success(())
    val rival =
      new Thread(() => result = Try(sessions.use(settings(place))(applyTo(operation, _, home))))
    rival.start()
    rival.join()
    result
  }

  private def check(trial: Trial, query: Counts, session: SparkSession): Option[String] = {
    val runs = (1 to RunsAfter).map(_ => () => query.runNext(trial.isStock))
    val first = runs.head()
    val repaired = first match {
      case Failure(_) =>
        count(refused)
        Try(run(trial.operation, session, query.home)).flatMap(_ => query.rerun())
      case success => success
    }
    // Each run is checked before the next one.
    (Iterator(repaired) ++ runs.tail.iterator.map(_())).zipWithIndex.collectFirst(Function.unlift {
      case (Failure(e), number)  => Some(s"run $number failed: ${RandomRuns.ending(Failure(e))}")
      case (Success(()), number) => query.wrong().map(keys => s"after run $number, $keys")
    })
  }

  private def run(operation: Operation, session: SparkSession, home: Path): Unit = {
    LoadedStores.stop()
    applyTo(operation, session, home)
    LoadedStores.stop()
  }

  private def applyTo(operation: Operation, session: SparkSession, home: Path): Unit = {
    val location = Counts.location(home)
    val classicSession = session.asInstanceOf[classic.SparkSession]
    operation.make(classicSession, location).run(classicSession, location)
    ()
  }

  /** A copy of a checkpoint whose query has processed three files, with its input. */
  private def inCopy[A](place: Place)(body: Path => A): A = {
    val source = prepared.getOrElseUpdate(place, prepare(place))
    val home = Files.createTempDirectory("cleancut-interrupted")
    try {
      FileUtils.copyDirectory(source.toFile, home.toFile)
      // The log of the source has absolute paths.
      Using.resource(Files.list(home.resolve("checkpoint/sources/0"))) { entries =>
        entries.forEach { entry =>
          val text = Files.readString(entry)
          val _ = Files.writeString(entry, text.replace(source.toString, home.toString))
        }
      }
      body(home)
    } finally {
      LoadedStores.stop()
      val _ = FileUtils.deleteQuietly(home.toFile)
    }
  }

  private def prepare(place: Place): Path = {
    val home = Files.createTempDirectory("cleancut-prepared")
    sessions.use(settings(place)) { session =>
      val query = new Counts(session, home)
      (1 to FilesBefore).foreach(_ => query.runNext(isStock = false).get)
      assert(query.wrong().isEmpty)
    }
    LoadedStores.stop()
    home
  }
}

private object InterruptedOperationsSuite {

  /** Another driver overtakes a rollback of RocksDB state. */
  private val UsualSeeds = Seq(8L)
  private val LongRuns = 40L
  private val RivalRuns = 5
  private val FilesBefore = 3
  private val RunsAfter = 3
  private val KeyCount = 24
  private val Partitions = 3

  /** The number that the edit adds to each count. */
  private val Added = 1000L

  private val RocksDb = RocksDbComparison.RocksDb
  private val Cleancut = classOf[CleancutStateStoreProvider].getName
  private val ManagerKey = "spark.sql.streaming.checkpointFileManagerClass"
  private val SparksManager = classOf[FileSystemBasedCheckpointFileManager].getName

  final case class Place(name: String, provider: String, confs: Map[String, String]) {

    /** Versions of state in format 1 have no ID, so leftovers look like versions of the query. */
    def weight: Int = if (confs.get(ChangelogKey).contains("true") && isWithoutIds) 3 else 1

    private def isWithoutIds = confs.get(FormatKey).contains("1")
    def isSparks: Boolean = provider == RocksDb
    def isNarrow: Boolean = confs.contains(StrictKey)

    /** Whether the source deletes its files after they have been processed. */
    def isCleaned: Boolean = confs.contains(CleanerKey)
    def isWithCuts: Boolean = confs.contains(Keys.Cuts.name)
    override def toString: String = name
  }

  private val ChangelogKey =
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
  private val StrictKey = "spark.sql.streaming.statefulOperator.useStrictDistribution"
  private val CleanerKey = "spark.sql.streaming.fileSource.cleaner.numThreads"
  private val MissingInput = "input files that were read after epoch"
  private val FormatKey = "spark.sql.streaming.stateStore.checkpointFormatVersion"

  val Places: Seq[Place] = Seq(
    Place("RocksDB with changelog", RocksDb, Map(ChangelogKey -> "true", FormatKey -> "1")),
    Place("RocksDB without changelog", RocksDb, Map(ChangelogKey -> "false", FormatKey -> "1")),
    Place("RocksDB with ids", RocksDb, Map(ChangelogKey -> "true", FormatKey -> "2")),
    Place("Cleancut without cuts", Cleancut, Map(FormatKey -> "1")),
    Place("Cleancut with cuts", Cleancut, Map(Keys.Cuts.name -> "true")),
    Place(
      "Cleancut with cuts, input partitioned by fewer columns",
      Cleancut,
      Map(Keys.Cuts.name -> "true", StrictKey -> "false")
    )
  )

  private val DeletedInput = Place(
    "Cleancut with cuts, deleted input",
    Cleancut,
    // The thread of the query deletes the files.
    Map(Keys.Cuts.name -> "true", CleanerKey -> "0")
  )

  /** The place, or the same with deleted input. Separate, so that other numbers do not change. */
  def withDeletedInput(place: Place, seed: Long): Place =
    if (place.confs == Map(Keys.Cuts.name -> "true") && RandomRuns.random(~seed).nextBoolean())
      DeletedInput
    else place

  def settings(place: Place): Map[String, String] = Map(
    "spark.sql.streaming.stateStore.providerClass" -> place.provider,
    "spark.sql.shuffle.partitions" -> Partitions.toString,
    ManagerKey -> classOf[CleancutCheckpointFileManager].getName
  ) ++ place.confs

  final case class Operation(
      name: String,
      isFor: Place => Boolean,
      make: (classic.SparkSession, String) => OfflineOperation
  ) {
    override def toString: String = name
  }

  private val Counted = StateRows(0L, "default", "default")

  private val ToCleancut =
    Operation("convert to Cleancut", _.isSparks, (_, _) => OfflineOperation.ToCleancut)

  val Operations: Seq[Operation] = Seq(
    Operation("rescale to more", _ => true, (_, _) => rewritten(5)),
    Operation("rescale to fewer", _ => true, (_, _) => rewritten(2)),
    Operation("rescale to a multiple", _.isWithCuts, (_, _) => OfflineOperation.rescale(6)),
    Operation("rescale by reference", _.isWithCuts, (_, _) => OfflineOperation.rescale(5)),
    Operation("rollback", _ => true, (_, _) => OfflineOperation.rollback(OfflineSource.Epoch(0L))),
    Operation("edit", _ => true, edit(_, _)),
    ToCleancut,
    Operation(
      "convert to RocksDB",
      place => !place.isSparks && !place.isWithCuts && TestedSpark.OperationsWriteForSpark,
      (_, _) => OfflineOperation.ToRocksDb
    )
  )

  private def rewritten(partitions: Int) =
    OfflineOperation.rescale(partitions).copy(isRewrite = true)

  private def edit(session: classic.SparkSession, location: String): OfflineOperation = {
    val rows = OfflineOperation.state(session, location, Counted)
    val value = struct((col("value.count") % Added + lit(Added)).as("count"))
    OfflineOperation.edit(Counted, rows.withColumn("value", value))
  }

  sealed abstract class Event(override val toString: String)

  object Event {
    case object Killed extends Event("killed")

    /** Another driver plans the next epoch. */
    case object Overtaken extends Event("overtaken")

    /** A second operation of the same kind runs from its start to its end. */
    case object Rival extends Event("interrupted by another one")
  }

  /**
   * @param step
   *   call before which the event happens
   * @param event
   *   interruption of the operation
   */
  final class Trial(
      val operation: Operation,
      val place: Place,
      val step: Int,
      val event: Event,
      random: Random
  ) {
    val isRepeated: Boolean = random.nextInt(4) == 0

    /** Whether the next run uses Spark's file manager. */
    val isStock: Boolean = !place.isWithCuts && random.nextBoolean()

    override def toString: String = Seq(
      s"$operation on $place, $event at step $step",
      if (isRepeated) ", repeated" else "",
      if (isStock) ", started on stock Spark" else ""
    ).mkString
  }

  object Counts {
    def location(home: Path): String = s"${StepFileSystem.Scheme}:${home.resolve("checkpoint")}"
  }

  /** Counts rows by key; each run processes one more file, which has each key once. */
  final class Counts(session: SparkSession, val home: Path) {
    private val input = home.resolve("in")

    // A name for each input file, because the source may delete the file.
    private val written = home.resolve("written")
    private val isCleaned = session.conf.getOption(CleanerKey).contains("0")
    private var counts = Map.empty[Long, Long]

    private def files: Int = Option(written.toFile.list).fold(0)(_.length)

    def runNext(isStock: Boolean): Try[Unit] = {
      Files.createDirectories(input)
      val lines = (0 until KeyCount).map(key => s"""{"k":$key}""")
      Files.createDirectories(written)
      Files.writeString(input.resolve(s"$files.json"), lines.mkString("\n"))
      Files.createFile(written.resolve(s"$files"))
      run(if (isStock) SparksManager else classOf[CleancutCheckpointFileManager].getName)
    }

    def rerun(): Try[Unit] = run(classOf[CleancutCheckpointFileManager].getName)

    private def run(manager: String): Try[Unit] = Try {
      session.conf.set(ManagerKey, manager)
      LoadedStores.stop()
      val rows = session.readStream
        .schema("k long")
        .option("maxFilesPerTrigger", 1)
        .option("cleanSource", if (isCleaned) "delete" else "off")
        .json(s"file:$input")
        .selectExpr("k div 2 as half", "k % 2 as rest")
        .repartition(col("half"))
        .groupBy("half", "rest")
        .count()
      var batches = Map.empty[Long, Long]
      rows.writeStream
        .outputMode("update")
        .option("checkpointLocation", Counts.location(home))
        .foreachBatch { (batch: DataFrame, _: Long) =>
          batches ++= batch
            .collect()
            .map(row => row.getLong(0) * 2 + row.getLong(1) -> row.getLong(2))
        }
        .trigger(Trigger.AvailableNow())
        .start()
        .awaitTermination()
      LoadedStores.stop()
      counts ++= batches
    }

    /** The counts, if they are not the number of files with or without the edit. */
    def wrong(): Option[String] = {
      val right = Seq(files.toLong, files + Added)
      val isRight =
        counts.size == KeyCount && right.exists(count => counts.values.forall(_ == count))
      Option.when(!isRight)(s"the counts of $files files are ${counts.toSeq.sorted.mkString(" ")}")
    }

    /** Plans the next epoch as another driver; false if the epoch is planned already. */
    def plan(): Boolean = {
      val log = home.resolve("checkpoint/offsets")
      val last = log.toFile.list.flatMap(_.toLongOption).max
      val next = log.resolve(s"${last + 1}")
      val isFree = last == FilesBefore - 1
      if (isFree) Files.copy(log.resolve(last.toString), next)
      isFree
    }
  }
}
