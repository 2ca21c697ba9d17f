package io.cleancut.golden

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.error.CleancutException
import io.cleancut.objectstore.{BucketPath, ObjectKey}

/** Locations that Python's reader must also accept or refuse (`test_locations.py`). */
class LocationVectorsSuite extends AnyFunSuite {
  private val accepted = Vectors.locations.get("accepted").elements().asScala.toSeq
  private val refused = Vectors.locations.get("refused").elements().asScala.toSeq

  test("a location has the prefix of its vector, and keys below it have names") {
    assert(accepted.size > 100)
    accepted.foreach { vector =>
      val location = vector.get("location").asText
      val path = BucketPath.parse(location)
      val prefix = vector.get("prefix").asText
      assert(path.prefix == (if (prefix.isEmpty) "" else s"$prefix/"), location)
      assert(path.keyOf(path.fullName(ObjectKey("cuts/1.cut"))).exists(_.name == "cuts/1.cut"))
      assert(ObjectKey.isKey(s"${path.prefix}cuts/1.cut"))
    }
  }

  test("Hadoop's paths preserve each location") {
    accepted.map(_.get("location").asText).foreach { location =>
      assert(BucketPath.parse(new Path(location).toString) == BucketPath.parse(location))
      val below = new Path(new Path(location), "offsets")
      assert(below.getName == "offsets", location)
      val parent = BucketPath.parse(below.getParent.toString)
      assert(parent == BucketPath.parse(location))
    }
  }

  test("invalid locations are refused with one error") {
    assert(refused.size > 100)
    refused.map(_.asText).foreach { location =>
      val error = intercept[CleancutException](BucketPath.parse(location))
      assert(error.errorId == "CLEANCUT_OBJECT_LOCATION_INVALID", location)
      assert(error.getMessage.contains("its path has "), error.getMessage)
    }
  }
}
