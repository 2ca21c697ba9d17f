package io.cleancut.conf

import org.scalatest.funsuite.AnyFunSuite

class KeysSuite extends AnyFunSuite {
  test("each key is declared once and listed in order") {
    val names = Keys.all.map(_.name)
    assert(names == names.distinct.sorted)
  }

  Keys.all.foreach { key =>
    test(s"${key.shortName} reads its own default back from text") {
      assert(key.read(Map(key.name -> key.defaultText)) == Right(key.default))
    }

    test(s"${key.shortName} has a documentation and a release") {
      assert(key.doc.endsWith(".") && key.doc.length > 80)
      assert(key.since.matches("\\d+\\.\\d+\\.\\d+"))
    }
  }
}
