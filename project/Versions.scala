/** Every pinned version of the JVM build. The Python pins are in pyproject.toml. */
object Versions {

  /** The same number as in pyproject.toml; the build of the wheel fails if they differ. */
  val Cleancut = "0.1.0"

  /** The Spark version whose jars come from the pinned PySpark. */
  val Spark = "4.3.0"

  /** The older versions, from the Maven registry, which also has the tests of this one. */
  val Spark42 = "4.2.0"

  /** The oldest version whose server for Spark Connect is available, too. */
  val Spark41 = "4.1.2"

  /** 4.0.0 has other iterators than later releases of 4.0. */
  val Spark40 = "4.0.1"

  /** Exactly Spark's own Scala, because its compiler is on the class path too. */
  val Scala = "2.13.18"

  /** The Hadoop version of PySpark's Spark. */
  val Hadoop = "3.5.0"

  /** Older ones cannot disable `Expect: 100-continue` for S3, which R2 never answers. */
  val AwsSdk = "2.57.8"

  /** Not ours: libraries that a cluster may have on its class path. */
  val OtherAwsSdk = "2.29.52"

  val S3Proxy = "4.1.0"
  val S3ProxyJackson = "2.22"

  val Kafka = "4.3.1"
  val KafkaSlf4j = "1.7.36"
  val MariaDb = "11.4.5"
  val PostgresJdbc = "42.7.8"

  /** The dependencies of Spark's connector for Kafka that Spark does not have. */
  val SparkKafkaClients = "3.9.2"
  val CommonsPool = "2.13.1"
  val SparkDelta = "4.4.0"
  val SparkIceberg = "1.11.0"
  val SqliteJdbc = "3.50.3.0"

  /** The YARN cluster of the tests uses an assertion of it. */
  val JUnit = "5.13.4"
  val BouncyCastle = "1.82"

  val ScalaTest = "3.2.19"
  val ScalaTestScalaCheck = s"$ScalaTest.0"
  val ScalaCheck = "1.18.1"
}
