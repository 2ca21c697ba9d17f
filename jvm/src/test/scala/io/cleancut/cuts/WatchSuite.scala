package io.cleancut.cuts

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

class WatchSuite extends AnyFunSuite {
  private val Names = (0 until 1000).map(n => s"file:/checkpoints/$n")
  private val Lasting = Names.filter(_.last.asDigit % 2 == 0)

  test("each is looked at once a time, as long as it goes on") {
    val looks = mutable.Map.empty[String, Int].withDefaultValue(0)
    val watch = new Watch[String]({ name =>
      looks(name) += 1
      assert(looks(name) <= 3, s"$name was looked at too often")
      Lasting.contains(name) && looks(name) < 3
    })
    Names.foreach(name => watch.add(name, name))
    watch.look()
    assert(Names.forall(looks(_) == 1))
    assert(Names.filter(watch.contains) == Lasting)
    watch.look()
    watch.look()
    watch.look()
    assert(Names.filter(looks(_) > 1) == Lasting && Lasting.forall(looks(_) == 3))
    assert(!Names.exists(watch.contains))
  }

  test("what is added while it is looked at in vain is looked at again") {
    lazy val watch: Watch[String] = new Watch[String]({ name =>
      watch.add(name, name)
      false
    })
    watch.add("query", "query")
    watch.look()
    assert(watch.contains("query"))
    watch.clear()
    assert(!watch.contains("query"))
  }
}
