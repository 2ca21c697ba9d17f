package io.cleancut.docs

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}

import org.scalatest.funsuite.AnyFunSuite

class GeneratedDocsSuite extends AnyFunSuite {
  GeneratedDocs.contents.foreach { case (name, expected) =>
    test(s"$name is in step with the code") {
      val actual = Files.readString(Path.of(name), UTF_8)
      // Not assert(actual == expected), which would print both documents in full.
      if (actual != expected) fail(s"$name differs. Run 'make docs' and commit the result.")
    }
  }
}
