package io.cleancut.e2e

import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.execution.streaming.state.StateStore

import io.cleancut.base.Clock
import io.cleancut.cutstore.CutArchive
import io.cleancut.format.CutLayout
import io.cleancut.objectstore.S3TestStore
import io.cleancut.testkit.{ProxiedServer, R2Rules, S3Server, SmallQueries}

/** The requests of a query's epochs to its object store, which a proxy counts. */
class EpochRequestsSuite extends AnyFunSuite with ProxiedServer {
  import EpochRequestsSuite._

  private val rules = new R2Rules(Clock.System)
  private val reads = new ConcurrentLinkedQueue[String]
  private var spark: SparkSession = _
  private var input: MemoryStream[Long] = _

  override protected def beforeAll(): Unit = {
    super.beforeAll()
    spark = SmallQueries.session("local[2]")(
      _.config("spark.sql.shuffle.partitions", Partitions.toString)
        .config(SmallQueries.inBucket(endpoint))
    )
    input = MemoryStream(Encoders.scalaLong, spark)
    proxy.enforce(rules)
    proxy.watch { request =>
      val isOfState = Read.findFirstIn(request.target).isDefined
      if (request.method == "GET" && isOfState) reads.add(request.target): Unit
    }
  }

  override protected def afterAll(): Unit = {
    spark.stop()
    super.afterAll()
  }

  private def archive: CutArchive = {
    val location = s"s3://${S3Server.Bucket}/counted/cleancut"
    new CutArchive(S3TestStore.open(endpoint, location), Clock.System)
  }

  /** Runs epochs; returns the number of read cuts and of read segment frames for each epoch. */
  private def run(epochs: Int): Seq[(Int, Int)] = {
    reads.clear()
    val query = SmallQueries.counting(input, s"s3://${S3Server.Bucket}/counted")
    try
      Seq.fill(epochs) {
        input.addData(0L until 500L)
        query.processAllAvailable()
        val (cuts, frames) = reads.asScala.toSeq.partition(_.contains(s"/${CutLayout.Cuts}"))
        reads.clear()
        (cuts.size, frames.size)
      }
    finally {
      query.stop()
      // The next run must start without loaded stores, as in a new process.
      StateStore.stop()
    }
  }

  test("a run reads its state once, in its first epoch, and a new query reads nothing") {
    val first = run(epochs = 3)
    assert(first == Seq.fill(3)((0, 0)), "a driver read its own objects")
    val tables = archive.cuts.last().get.head.paged.window.size
    val second = run(epochs = 3)
    // The last cut for the checks before the run and for the coordinator, and the tables that the
    // cut references. Tasks receive their chains from the driver, and read the frames of all stores
    // in a segment with one request.
    assert(second.head == ((2, 2 * tables)) && tables <= 2 * 3)
    assert(second.tail == Seq.fill(2)((0, 0)))
    // Except the write probe at the start, no object is written twice within a second.
    val refused = rules.tooFast.distinct.filterNot(_.contains("/probe-"))
    assert(rules.writes > 2 * 3 && refused.isEmpty, refused)
  }
}

object EpochRequestsSuite {
  private val Partitions = 4

  /** A request for a cut or segment; a listing has such a name among its parameters. */
  private val Read = s"^[^?]*/cleancut/(${CutLayout.Cuts}|${CutLayout.Segments})[^?]+".r
}
