package io.cleancut.format

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.error.CleancutException
import io.cleancut.format.cut.{Lineage, Origin}

class LineageSuite extends AnyFunSuite {

  test("a lineage is read as it was written, and a damaged one is named") {
    val first = Lineage.Empty.and(Origin("file:/first", 7, Some(12)))
    val second = first.and(Origin("s3://bucket/größe", 0, None))
    for (of <- Seq(Lineage.Empty, first, second))
      assert(Lineage.parse("origin.json", of.toBytes) == of)
    val text = new String(second.toBytes, "UTF-8")
    val damaged = Seq(
      text.dropRight(2),
      text.replace("\"formatVersion\":1", "\"formatVersion\":2"),
      text.replace("\"checkpoint\":\"file:/first\",", "")
    )
    damaged.foreach { body =>
      val error = intercept[CleancutException](Lineage.parse("origin.json", body.getBytes("UTF-8")))
      assert(
        error.getErrorId == "CLEANCUT_CUT_CORRUPTED" && error.getMessage.contains("origin.json")
      )
    }
  }
}
