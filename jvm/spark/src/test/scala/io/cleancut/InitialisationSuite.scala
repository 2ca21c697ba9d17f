package io.cleancut

import java.nio.file.Path

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.testkit._
import io.cleancut.base.StateVersion

/**
 * Two threads that each begin with another one of two classes which initialise each other wait for
 * ever (The Java Language Specification, 12.4.2): two queries that start at once on one driver.
 */
class InitialisationSuite extends AnyFunSuite {
  import InitialisationSuite._

  test("no two classes initialise each other") {
    val classes = Path.of(classOf[StateVersion].getProtectionDomain.getCodeSource.getLocation.toURI)
    val own = Initialisation.below(classes)
    assert(own.count > 500)
    assert(own.circles.isEmpty, own.circles.mkString("\n", "\n", ""))
  }

  test("a circle is found through a constructor and a method, and nothing else is taken for one") {
    val classes =
      Seq[Class[_]](
        First.getClass,
        Second.getClass,
        classOf[Second],
        Apart.getClass,
        Constant.getClass
      )
    val circle = Set(First.getClass, Second.getClass).map(_.getName.replace('.', '/'))
    assert(Initialisation.of(classes: _*).circles == Seq(circle))
  }
}

object InitialisationSuite {
  private object First {
    val Size: Int = Second.All.hashCode
    def valid(name: String): Boolean = name.length <= Size
  }

  final private class Second(name: String) {
    require(Second.isValid(name))
  }

  private object Second {
    val All = new Second("")
    def isValid(name: String): Boolean = First.valid(name)
  }

  private object Apart {
    final val Bound = 3
    val Size: Int = Constant.Size + First.Size
  }

  private object Constant {
    val Size: Int = Apart.Bound
  }
}
