package org.apache.spark.sql.execution.streaming.state.cleancut.operations

import java.io.IOException
import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.commons.io.FileUtils
import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.{
  OfflinePlace,
  OfflineSource,
  OfflineTarget
}
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.streaming.Trigger

import io.cleancut.base.Clock
import io.cleancut.conf.Keys
import io.cleancut.error.CleancutException
import io.cleancut.objectstore.WriterToken
import io.cleancut.testkit.{StepFileSystem, TestDirectory}

/**
 * Offline operations that are refused before they change anything, or have fewer preconditions.
 */
class OperationChecksSuite extends AnyFunSuite with StepFilesSession {

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

  test("a checkpoint with a missing part is not converted, and the part is named") {
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
        for (operation <- Seq(OfflineOperation.rescale(4), clone(query.resolveSibling("clone")))) {
          val message = refusal(operation.run(session, at(copy)))
          assert(
            message.contains(named) || (part == "state" && message.contains("no stateful")),
            message
          )
        }
        assert(filesIn(copy) == before)
        assert(!Files.exists(query.resolveSibling("clone")))
        FileUtils.deleteDirectory(copy.toFile)
      }
      assert(parts.nonEmpty)
    }
  }

  test("a refused operation does not take over from a driver that has continued") {
    inQuery { query =>
      val before = filesIn(query)
      val place = OfflinePlace.of(session, at(query), "rescale")
      val target = OfflineTarget(place, last = 0L, epoch = 1L, isNew = false)
      val message = refusal {
        OfflineRun.using(target, "rescale", OfflinePlace.newId())(_ => fail("became the owner"))
      }
      assert(message.contains("epoch 1 has been committed meanwhile"))
      assert(filesIn(query) == before)
    }
  }

  test("a read-only checkpoint can be cloned, and other operations are refused") {
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

  test("a read-only checkpoint without cuts is not released") {
    session.conf.set(Keys.Cuts.name, "false")
    try
      inQuery { query =>
        val before = filesIn(query)
        StepFileSystem.counting((_, _) => throw new IOException("Read-only file system")) {
          val message = refusal(OfflineOperation.ToRocksDb.run(session, at(query)))
          assert(message.contains("cannot be written"))
          ()
        }
        assert(filesIn(query) == before)
      }
    finally session.conf.set(Keys.Cuts.name, "true")
  }

  test("a clone accepts the existing number of partitions, and no provider that contradicts cuts") {
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

  test("a clone is executed although a killed one has left its probe of the bucket") {
    inQuery { query =>
      val into = query.resolveSibling("clone")
      val probe = into.resolve(s"probe-${WriterToken.fresh(Clock.System)}")
      Files.writeString(Files.createDirectories(probe).resolve("plain"), "text")
      val made = OfflineOperation
        .copy(OfflineSource.Last, CloneTarget(at(into), isOtherQuery = false))
        .run(session, at(query))
      assert(made.partitions == made.partitionsBefore)
    }
  }

  test("a clone is refused in a directory with other files, or without a file system") {
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
