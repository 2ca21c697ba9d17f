package io.cleancut

import java.nio.file.Path

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.testkit._
import io.cleancut.base.StateVersion

/**
 * Two threads deadlock if each starts with a different one of two classes that initialize each
 * other (The Java Language Specification, 12.4.2), as when two queries start at once on one driver.
 */
class InitialisationSuite extends AnyFunSuite {
  import InitialisationSuite._

  test("no two classes initialize each other") {
    val classes = Path.of(classOf[StateVersion].getProtectionDomain.getCodeSource.getLocation.toURI)
    val compiled = Initialisation.below(classes)
    assert(compiled.count > 500)
    assert(compiled.circles.isEmpty, compiled.circles.mkString("\n", "\n", ""))
  }

  test("a cycle is found through a constructor and a method, and there is no false positive") {
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
