package io.cleancut.e2e

import java.nio.file.{Files, Path}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path => HadoopPath}
import org.scalatest.{Assertion, BeforeAndAfterAll}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.Encoders

import io.cleancut.{CleancutCheckpointFileManager, CleancutExtensions, CleancutStateStoreProvider}
import io.cleancut.base.Clock
import io.cleancut.cutstore.CutArchive
import io.cleancut.objectstore.hadoop.HadoopStore
import io.cleancut.testkit.{LoadedStores, SmallQueries, TestDirectory}

/** A query whose cuts have pages. */
class PagedCutsSuite extends AnyFunSuite with BeforeAndAfterAll {
  import PagedCutsSuite._

  private var spark: SparkSession = _

  override protected def beforeAll(): Unit = {
    super.beforeAll()
    spark = SmallQueries.session("local[2]")(
      _.config("spark.sql.shuffle.partitions", Partitions.toString)
        .config(s"$State.providerClass", classOf[CleancutStateStoreProvider].getName)
        .config("spark.sql.extensions", classOf[CleancutExtensions].getName)
        .config(FileManagerKey, classOf[CleancutCheckpointFileManager].getName)
        .config(s"$State.cleancut.cuts", "true")
        // Without bases chains grow.
        .config(s"$State.minDeltasForSnapshot", "100")
        .config(s"$State.maintenanceInterval", "1h")
    )
  }

  override protected def afterAll(): Unit = {
    spark.stop()
    super.afterAll()
  }

  /** A query in a directory, which can be restarted. */
  final private class Counted(val directory: Path) {
    private val input = MemoryStream(Encoders.scalaLong, spark)
    private var added = 0L
    private var last = Map.empty[Long, Long]

    def archive: CutArchive = {
      val root = new HadoopPath(directory.resolve("cleancut").toUri)
      new CutArchive(HadoopStore.open(root, new Configuration, Clock.System), Clock.System)
    }

    private def start(): StreamingQuery = SmallQueries.counting(
      input,
      s"file:$directory",
      _.foreach(row => last += row.getLong(0) -> row.getLong(1))
    )

    /** Runs epochs without stores that earlier runs have loaded, as in a new process. */
    def run(epochs: Int, beforeEach: Int => Unit = _ => ()): Assertion = {
      val query = start()
      try
        (1 to epochs).foreach { number =>
          beforeEach(number)
          input.addData((0L until Keys).map(key => (key + added) % (2 * Keys)))
          added += 1
          query.processAllAvailable()
        }
      finally {
        query.stop()
        LoadedStores.stop()
      }
      val rows = (0L until added).flatMap(n => (0L until Keys).map(key => (key + n) % (2 * Keys)))
      assert(last == rows.groupBy(identity).map { case (key, all) => key -> all.size.toLong })
    }
  }

  private def inDirectory(test: Counted => Assertion): Assertion =
    TestDirectory.use("paged-cuts")(home =>
      test(new Counted(Files.createDirectory(home.resolve("q"))))
    )

  test("chains longer than the window use pages and merged frames, and are restored") {
    inDirectory { query =>
      query.run(epochs = 2 * Paging + 3)
      val cut = query.archive.cuts.last().get
      val paged = cut.head.paged
      assert(paged.pages.nonEmpty && paged.window.map(_.epoch).min > 0)
      assert(paged.window.map(_.epoch).distinct.size <= 2 * Paging)
      val frames = cut.whole.stores.head.frames
      assert(frames.size > 2 * Paging && frames.exists(_._3.segment.contains("/merged-")))
      query.run(epochs = 2)
      assert(
        query.archive.cuts
          .epochs()
          .flatMap(query.archive.cuts.read(_))
          .forall(_.stores.size == Partitions)
      )
    }
  }

  test("a task without a loaded store receives its chain from the driver") {
    inDirectory { query =>
      query.run(epochs = Paging + 2)
      val cuts = query.directory.resolve("cleancut/cuts")
      val aside = query.directory.resolve("aside")
      query.run(
        epochs = 3,
        beforeEach = number =>
          if (number == 2) {
            // The loss of an executor. From now on no task can read a cut.
            LoadedStores.stop()
            val _ = Files.move(cuts, aside)
          }
      )
      assert(Files.list(cuts).count() == 2)
      Files.list(cuts).forEach { cut =>
        Files.move(cut, aside.resolve(cut.getFileName))
        ()
      }
      Files.delete(cuts)
      Files.move(aside, cuts)
      query.run(epochs = 1)
    }
  }
}

private object PagedCutsSuite {
  val State = "spark.sql.streaming.stateStore"
  val FileManagerKey = "spark.sql.streaming.checkpointFileManagerClass"
  val Partitions = 3
  val Keys = 40L

  /** Number of epochs after which a page is due. */
  val Paging = 8
}
