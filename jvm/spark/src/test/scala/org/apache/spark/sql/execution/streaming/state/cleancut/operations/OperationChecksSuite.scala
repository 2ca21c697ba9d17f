package org.apache.spark.sql.execution.streaming.state.cleancut.operations

import java.io.IOException
import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.commons.io.FileUtils
import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.{
  OfflinePlace,
  OfflineSource,
  OfflineTarget
}
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.streaming.Trigger

import io.cleancut.conf.Keys
import io.cleancut.e2e.WithCuts
import io.cleancut.error.CleancutException
import io.cleancut.testkit.{StepFileSystem, TestDirectory}

/**
 * Offline operations that are refused before they change anything, or that need less than usual.
 */
class OperationChecksSuite extends AnyFunSuite with WithCuts {
  override protected def master: String = "local[2]"
  override protected def partitions: Int = 2

  private lazy val session = {
    val own = spark.asInstanceOf[SparkSession]
    val key = s"fs.${StepFileSystem.Scheme}.impl"
    own.sparkContext.hadoopConfiguration.set(key, classOf[StepFileSystem].getName)
    own
  }

  /** A checkpoint with two epochs. */
  private def inQuery(body: Path => Assertion): Assertion = TestDirectory.use("operation-checks") {
    home =>
      val input = Files.createDirectory(home.resolve("in"))
      (0 to 1).foreach { file =>
        Files.writeString(input.resolve(s"$file.json"), s"""{"k":$file}""")
        session.readStream
          .schema("k long")
          .json(input.toString)
          .groupBy(col("k"))
          .count()
          .writeStream
          .outputMode("update")
          .format("noop")
          .option("checkpointLocation", at(home.resolve("q")))
          .trigger(Trigger.AvailableNow())
          .start()
          .awaitTermination()
      }
      body(home.resolve("q"))
  }

  private def at(path: Path): String = s"${StepFileSystem.Scheme}:$path"

  private def refusal(body: => Any): String = {
    val refused = intercept[CleancutException](body)
    assert(refused.getErrorId == "CLEANCUT_OPERATION_REFUSED", refused.getMessage)
    refused.getMessage
  }

  private def filesIn(root: Path): Set[String] = Using.resource(Files.walk(root)) {
    _.iterator.asScala.filter(Files.isRegularFile(_)).map(_.toString).toSet
  }

  private def clone(into: Path) =
    OfflineOperation.copy(OfflineSource.Last, CloneTarget(at(into), true))

  test("a checkpoint that lacks a part is not converted, and the part is named") {
    inQuery { query =>
      val copy = query.resolveSibling("copy")
      val parts = Seq(
        "metadata" -> "its file metadata",
        "sources" -> "entry 1 of sources/0",
        "sources/0/1" -> "entry 1 of sources/0",
        "state" -> "the metadata of operator 0"
      )
      for ((part, named) <- parts) {
        FileUtils.copyDirectory(query.toFile, copy.toFile)
        FileUtils.forceDelete(copy.resolve(part).toFile)
        val before = filesIn(copy)
        for (of <- Seq(OfflineOperation.rescale(4), clone(query.resolveSibling("clone")))) {
          val said = refusal(of.run(session, at(copy)))
          assert(said.contains(named) || (part == "state" && said.contains("no stateful")), said)
        }
        assert(filesIn(copy) == before)
        assert(!Files.exists(query.resolveSibling("clone")))
        FileUtils.deleteDirectory(copy.toFile)
      }
      assert(parts.nonEmpty)
    }
  }

  test("a refusal does not take the ownership from a driver that has gone on") {
    inQuery { query =>
      val before = filesIn(query)
      val place = OfflinePlace.of(session, at(query), "rescale")
      val target = OfflineTarget(place, last = 0L, epoch = 1L, isNew = false)
      val said = refusal {
        OfflineRun.using(target, "rescale", OfflinePlace.newId())(_ =>
          fail("it took the ownership")
        )
      }
      assert(said.contains("epoch 1 has been committed meanwhile"))
      assert(filesIn(query) == before)
    }
  }

  test("a checkpoint that cannot be written is cloned, and refused otherwise") {
    inQuery { query =>
      val before = filesIn(query)
      def readOnly(body: => Assertion): Int = StepFileSystem.counting { (_, what) =>
        if (what.contains(s"$query/")) throw new IOException("Read-only file system")
      } {
        body
        ()
      }
      readOnly(
        assert(refusal(OfflineOperation.rescale(4).run(session, at(query))).contains("Read-only"))
      )
      val into = query.resolveSibling("clone")
      readOnly {
        val done = clone(into).run(session, at(query))
        assert(done.operators.map(_.rows) == Seq(Some(2L)))
      }
      assert(filesIn(query) == before)
    }
  }

  test("a checkpoint without cuts that cannot be written is not released") {
    session.conf.set(Keys.Cuts.name, "false")
    try
      inQuery { query =>
        val before = filesIn(query)
        StepFileSystem.counting((_, _) => throw new IOException("Read-only file system")) {
          val said = refusal(OfflineOperation.ToRocksDb.run(session, at(query)))
          assert(said.contains("cannot be written"))
          ()
        }
        assert(filesIn(query) == before)
      }
    finally session.conf.set(Keys.Cuts.name, "true")
  }

  test("a clone may name the partitions that there are, and no provider that contradicts cuts") {
    inQuery { query =>
      val into = query.resolveSibling("clone")
      val same = clone(into).copy(partitions = Some(2)).run(session, at(query))
      assert((same.partitionsBefore, same.partitions) == ((2, 2)))
      val toRocksDb = OfflineOperation
        .copy(OfflineSource.Last, CloneTarget(at(into), true, isWithCuts = Some(true)))
        .copy(providerClass = OfflineOperation.ToRocksDb.providerClass)
      assert(
        refusal(toRocksDb.plan(session, at(query)))
          .contains("cuts can only commit state of Cleancut")
      )
    }
  }

  test("a clone does not go where other files are, or where no file system is") {
    inQuery { query =>
      val file = Files.writeString(query.resolveSibling("file"), "text")
      val used = Files.createDirectory(query.resolveSibling("used"))
      Files.writeString(used.resolve("data.txt"), "text")
      def plan(into: String) =
        OfflineOperation.copy(OfflineSource.Last, CloneTarget(into, true)).plan(session, at(query))
      assert(refusal(plan(at(file))).contains("is a file"))
      assert(refusal(plan(at(used))).contains("has other files, such as data.txt"))
      assert(refusal(plan("unknown://place/q")).contains("no file system"))
      assert(refusal(plan("s3a://bucket/q")).contains("use s3://bucket/q"))
      assert(refusal(OfflineOperation.rescale(4).plan(session, "")).contains("no file system"))
    }
  }
}
