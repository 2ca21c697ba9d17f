package io.cleancut.objectstore

import java.io.File
import java.nio.charset.StandardCharsets.UTF_8
import java.util.jar.JarFile

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.testkit.{S3ProxyServer, S3Server, ServerProcess}

/** The packaged jars: shaded dependencies, licences, and compatibility with another AWS SDK. */
class ShadedJarSuite extends AnyFunSuite with BeforeAndAfterAll {
  private val jars = System.getProperty("cleancut.test.jars").split(',')
  private val (commonJar, lineJar) = (jars.head, jars.last)
  private var server: S3Server = _

  override protected def beforeAll(): Unit = server = S3ProxyServer.start()

  override protected def afterAll(): Unit = server.close()

  private def entriesOf(jar: String): Seq[String] =
    Using.resource(new JarFile(jar))(_.entries.asScala.map(_.getName).toSeq)

  private def entries: Seq[String] = entriesOf(commonJar)

  private def textOf(name: String): String = Using.resource(new JarFile(commonJar)) { jar =>
    new String(jar.getInputStream(jar.getEntry(name)).readAllBytes(), UTF_8)
  }

  test("every class is in a package of Cleancut") {
    val classes = (entries ++ entriesOf(lineJar)).filter(_.endsWith(".class"))
    val foreign = classes.filterNot { name =>
      name.startsWith("io/cleancut/") ||
      name.startsWith("org/apache/spark/sql/execution/streaming/state/cleancut/") ||
      name.startsWith("org/apache/spark/sql/execution/python/cleancut/") ||
      name.startsWith("org/apache/spark/sql/connect/cleancut/")
    }
    assert(classes.size > 1000 && foreign == Nil)
    assert(classes.exists(_.startsWith("io/cleancut/shaded/software/amazon/awssdk/services/s3/")))
    assert(classes.exists(_.startsWith("io/cleancut/shaded/software/amazon/awssdk/services/sts/")))
  }

  test("classes that text files refer to are in the jar") {
    val all = entries.toSet
    val lists = all.filter { name =>
      (name.startsWith("META-INF/services/") && !name.endsWith("/")) ||
      name.endsWith("execution.interceptors")
    }
    val named = for {
      list <- lists.toSeq
      line <- textOf(list).linesIterator.map(_.takeWhile(_ != '#').trim) if line.nonEmpty
    } yield list -> line
    assert(named.exists(_._2.startsWith("io.cleancut.shaded.")))
    assert(named.filterNot { case (_, name) => all(s"${name.replace('.', '/')}.class") } == Nil)
    // Another SDK would read a list that kept its original name, and Cleancut's SDK would not.
    assert(lists.filter(_.matches("META-INF/services/(software|org)\\..*")) == Set.empty)
  }

  test("the jars contain the licences and notices of their dependencies") {
    val text = entries.filter(_.matches("META-INF/(LICENSE|NOTICE).*")).map(textOf).mkString("\n")
    assert(text.contains("Apache License"))
    val inside = Seq("AWS SDK for Java", "Apache HttpComponents", "Reactive Streams")
    for (name <- inside ++ Seq("Jackson JSON processor", "Public Suffix List", "FastDoubleParser"))
      assert(text.contains(name), s"no notice of $name")
    for (name <- Seq("LICENSE", "NOTICE"))
      assert(entriesOf(lineJar).exists(_.startsWith(s"META-INF/$name")), name)
  }

  test("code without Spark is in the common jar, and no class is in both jars") {
    val ofSpark = entries.filter { name =>
      Seq("org/apache/spark/", "io/cleancut/files/", "io/cleancut/Cleancut").exists(
        name.startsWith(_)
      )
    }
    assert(ofSpark == Nil)
    val twice = entries.toSet & entriesOf(lineJar).filterNot(_.endsWith("/")).toSet
    assert(twice.filterNot(_.startsWith("META-INF/")) == Set.empty)
  }

  test("the jars are small enough for a wheel, which has the second one for each Spark version") {
    assert(new File(commonJar).length < 14700 * 1000)
    assert(new File(lineJar).length < 2800 * 1000)
  }

  test("the jar works with another SDK on the class path") {
    val sparkJars = System
      .getProperty("java.class.path")
      .split(File.pathSeparator)
      .filter(_.contains(s"pyspark${File.separator}jars"))
    val tests = getClass.getProtectionDomain.getCodeSource.getLocation.getPath
    // The other SDK comes first, like the jars of a cluster.
    val classPath = Seq(System.getProperty("cleancut.test.otherSdk"), commonJar, lineJar) ++
      sparkJars :+ tests
    val builder = new ProcessBuilder(
      ServerProcess
        .java(
          classPath.mkString(File.pathSeparator),
          "io.cleancut.objectstore.ClashCheck",
          server.endpoint
        )
        .asJava
    )
    builder.environment.put("AWS_ACCESS_KEY_ID", S3Server.AccessKey)
    builder.environment.put("AWS_SECRET_ACCESS_KEY", S3Server.SecretKey)
    val process = builder.redirectErrorStream(true).start()
    val printed = new String(process.getInputStream.readAllBytes(), UTF_8)
    assert(process.waitFor() == 0, printed)
    assert(printed.contains("other SDK 2.29.52"), printed)
    assert(printed.contains("our SDK 2.57.8"), printed)
    assert(printed.contains("written by ours, read by the other"), printed)
  }
}
