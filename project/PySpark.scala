import java.net.URLClassLoader

import scala.sys.process._

import sbt._

/** The pinned PySpark whose jars we compile and test against: the class path that users run. */
object PySpark {

  /** The directory of the `pyspark` package, as `project/pyspark-home` finds it. */
  def home(buildRoot: File): File = {
    val script = buildRoot / "project" / "pyspark-home"
    val home = file(Process(script.getPath, buildRoot).!!.trim)
    val core = home / "jars" / s"spark-core_2.13-${Versions.Spark}.jar"
    if (!core.isFile)
      sys.error(s"Need PySpark ${Versions.Spark} with Scala 2.13, but $core does not exist.")
    home
  }

  def jars(home: File): Seq[Attributed[File]] =
    (home / "jars" * "*.jar").get.sortBy(_.getName).map(Attributed.blank)

  /** The libraries that come with Spark, without Spark. */
  def jarsWithoutSpark(home: File): Seq[Attributed[File]] =
    jars(home).filterNot(_.data.getName.startsWith("spark-"))

  /** The JVM options of Spark's launcher, read from it so that they never differ. */
  def javaOptions(home: File): Seq[String] = {
    val jar = home / "jars" / s"spark-launcher_2.13-${Versions.Spark}.jar"
    val loader = new URLClassLoader(Array(jar.toURI.toURL), null)
    try
      loader
        .loadClass("org.apache.spark.launcher.JavaModuleOptions")
        .getMethod("defaultModuleOptionArray")
        .invoke(null)
        .asInstanceOf[Array[String]]
        .toSeq
    finally loader.close()
  }
}
