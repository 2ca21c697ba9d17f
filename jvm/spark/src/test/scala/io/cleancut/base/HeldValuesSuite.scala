package io.cleancut.base

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.testkit.Patience

class HeldValuesSuite extends AnyFunSuite with Patience {
  test("a value is shared as long as it is referenced") {
    val values = new HeldValues[Int, Array[Byte]](recent = 0)
    val held = values(1)(new Array[Byte](10))
    values(2)(new Array[Byte](10))
    eventually {
      System.gc()
      assert(values.all.map(_._1) == Seq(1))
    }
    assert(values(1)(fail("the value is missing")) eq held)
    assert(held.length == 10)
  }

  test("the most recent values are kept without references") {
    val values = new HeldValues[Int, Array[Byte]](recent = 2)
    (1 to 9).foreach(key => values(key)(new Array[Byte](10)))
    values(8)(fail("the value is missing"))
    values(10)(new Array[Byte](10))
    eventually {
      System.gc()
      assert(values.all.map(_._1).toSet == Set(8, 10))
    }
  }
}
