package org.apache.spark.sql.execution.streaming.state.cleancut.session

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.Providers

import io.cleancut.base.{Clock, StateVersion}
import io.cleancut.conf.Keys
import io.cleancut.cutstore.CutArchive
import io.cleancut.error.CleancutException
import io.cleancut.format.cut.{Cut, RunId}
import io.cleancut.objectstore.hadoop.HadoopStore

/** A provider without commits by cuts on a checkpoint whose epochs are committed by cuts. */
class CutsRequiredSuite extends AnyFunSuite {
  import Providers._

  private def cut(setup: Setup, epoch: Long): Assertion = {
    val root = new Path(setup.directory.resolve("cleancut").toUri)
    val store = HadoopStore.open(root, new Configuration, Clock.System)
    val token = StateVersion.newId(Clock.System)
    val made = Cut(epoch, RunId(None, "r", 1), token, 0, "v1\n{}", "", Nil, Map.empty)
    assert(new CutArchive(store, Clock.System).cuts.create(made))
  }

  private def refusal(body: => Any): CleancutException = {
    val thrown = intercept[Exception](body)
    val causes = Iterator.iterate[Throwable](thrown)(_.getCause).takeWhile(_ != null)
    causes.collectFirst { case c: CleancutException => c }.getOrElse(throw thrown)
  }

  test("writes are refused, also at version 0, and the error names the key to set") {
    for (version <- Seq(0L, 1L)) {
      val files = setup()
      cut(files, 0)
      val provider = files.open()
      val error = refusal(provider.getStore(version))
      assert(error.getErrorId == "CLEANCUT_CUTS_REQUIRED")
      assert(error.getMessage.contains("cleancut conf --cuts"))
      assert(error.getMessage.contains(Keys.Cuts.name))
      assert(files.frames.isEmpty)
      provider.close()
    }
  }

  test("writes are refused if only the key enables cuts") {
    val files = setup().copy(confs = Map(Keys.Cuts.name -> "true"))
    val provider = files.open()
    assert(refusal(provider.getStore(0)).getErrorId == "CLEANCUT_CUTS_REQUIRED")
    provider.close()
  }

  test("a run that has begun without cuts is not affected by cuts of another driver") {
    val files = setup()
    val provider = files.open()
    assert(commit(provider, 0, 1L -> 10L) == 1)
    cut(files, 0)
    assert(commit(provider, 1, 2L -> 20L) == 2)
    provider.close()
    // The next run sees them.
    val next = files.open()
    assert(refusal(next.getStore(2)).getErrorId == "CLEANCUT_CUTS_REQUIRED")
    next.close()
  }
}
