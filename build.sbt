ThisBuild / organization := "io.cleancut"
ThisBuild / version := Versions.Cleancut
// What docs/project/compatibility.md promises: before 1.0 the second number may break callers.
ThisBuild / versionScheme := Some("early-semver")
ThisBuild / scalaVersion := Versions.Scala

lazy val pySparkHome = settingKey[File]("directory of the pinned pyspark package")
ThisBuild / pySparkHome := PySpark.home((LocalRootProject / baseDirectory).value)

lazy val coreIdentity =
  taskKey[JarIdentity.Identity](
    "what tells the jar of all Spark versions from any other build of it"
  )

lazy val s3ProxyClassPath = taskKey[File]("the class path of the S3 server of tests and demo")

lazy val jdbcClassPath = taskKey[File]("the class path of PostgreSQL's driver for JDBC")
lazy val sparkKafkaClassPath = taskKey[File]("the class path of Spark's own sink for Kafka")
lazy val sparkDeltaClassPath = taskKey[File]("the class path of Delta's connector for Spark 4.2")
lazy val sparkIcebergClassPath = taskKey[File]("the class path of Iceberg's runtime for Spark 4.1")
lazy val kafkaClassPath = taskKey[File]("the class path of a broker of Kafka, for Python's tests")

lazy val yarnClassPath = taskKey[File]("the class path of a cluster of YARN, for Python's tests")

lazy val mariaDb = taskKey[File]("a server of MariaDB, for Python's tests")

lazy val testJvm = taskKey[File]("the class path and the options of the JVM of suites")

lazy val forklessFiles =
  taskKey[File]("a jar of the local disk without processes, for Python's tests")

lazy val strictScalac = Seq(
  "-encoding",
  "utf-8",
  "-release",
  "17",
  "-deprecation",
  "-feature",
  "-unchecked",
  "-Xlint",
  "-Wunused",
  "-Wdead-code",
  "-Wvalue-discard",
  "-Werror"
)

lazy val onPySpark = Seq(
  scalacOptions ++= strictScalac,
  // Spark is always there at run time, in this very version, so it is never packaged.
  Compile / unmanagedJars ++= PySpark.jars(pySparkHome.value)
)

// Shims are in folders that name the Spark versions that they are for.
def sourcesFor(version: String) = Seq(
  name := s"cleancut-spark-$version",
  moduleName := name.value,
  Compile / unmanagedResourceDirectories :=
    Seq((LocalProject("spark43") / baseDirectory).value / "src" / "main" / "resources"),
  Compile / resourceGenerators +=
    JarIdentity.ofSparkJar(version, LocalProject("core") / coreIdentity).taskValue,
  Compile / unmanagedSourceDirectories ++=
    SparkVersions.shims((LocalProject("spark43") / baseDirectory).value / "src" / "main", version),
  Test / unmanagedSourceDirectories ++=
    SparkVersions.shims((LocalProject("spark43") / baseDirectory).value / "src" / "test", version)
)

// Two JVMs of tests at once, since some tests wait more than they work.
Global / concurrentRestrictions := Seq(
  Tags.limitAll(java.lang.Runtime.getRuntime.availableProcessors),
  Tags.limit(Tags.ForkedTestGroup, 2),
  Tags.exclusiveGroup(Tags.Clean)
)

lazy val root = (project in file("."))
  .aggregate(core, spark43, spark42, spark41, spark40, bench)
  .settings(publish / skip := true)

// The code without Spark: with the S3 client, the jar for all Spark versions.
lazy val core = (project in file("jvm/core"))
  .settings(
    name := "cleancut-common",
    scalacOptions ++= strictScalac,
    // Not as jars of the project, which the projects of other Spark versions would inherit.
    Compile / dependencyClasspath ++= PySpark.jarsWithoutSpark(pySparkHome.value),
    libraryDependencies ++= AwsSdk.modules,
    coreIdentity := {
      (Compile / compile).value
      JarIdentity.of(
        (Compile / classDirectory).value,
        (Compile / resourceDirectory).value,
        version.value
      )
    },
    Compile / resourceGenerators += JarIdentity.ofCoreJar(coreIdentity).taskValue,
    Publishing.shadedModules := {
      val file = (LocalRootProject / baseDirectory).value / "target" / "shaded-modules.tsv"
      IO.write(file, Publishing.table(update.value))
      file
    }
  )
  .settings(assemblySettings)

lazy val spark43 = (project in file("jvm/spark"))
  .dependsOn(core)
  .settings(onPySpark)
  .settings(sourcesFor("4.3"))
  .settings(
    // HDFS in the tests' own JVM; what it needs beyond Spark's jars lies inside it.
    libraryDependencies +=
      ("org.apache.hadoop" % "hadoop-client-minicluster" % Versions.Hadoop % Test).intransitive(),
    libraryDependencies ++= TestLibraries.modules,
    // A small size of a benchmark's queries is a test of their results.
    Test / unmanagedSources ++=
      BenchSources.ofNexmark((LocalProject("bench") / Compile / scalaSource).value),
    ivyConfigurations ++= ChildJvm.configurations,
    libraryDependencies ++= ChildJvm.modules,
    s3ProxyClassPath := {
      val file = (LocalRootProject / baseDirectory).value / ".cache" / "s3proxy.classpath"
      IO.write(file, ChildJvm.classPath(update.value, ChildJvm.S3Proxy))
      file
    },
    testJvm := {
      val file = (LocalRootProject / baseDirectory).value / ".cache" / "test-jvm.txt"
      val classPath = (Test / fullClasspath).value.files.mkString(java.io.File.pathSeparator)
      IO.writeLines(file, classPath +: (Test / javaOptions).value)
      file
    },
    forklessFiles := {
      val file = (LocalRootProject / baseDirectory).value / ".cache" / "forkless-files.jar"
      val classes = (Test / packageBin / mappings).value.filter(_._1.getName.startsWith("Forkless"))
      IO.zip(classes, file, None)
      file
    }
  )
  .settings(testSettings)
  .settings(childJvmSettings)
  .settings(lineAssemblySettings)

// The same sources for the earlier Spark versions, with the tests that use Spark.
lazy val spark42 = earlier("4.2", Versions.Spark42)
lazy val spark41 = earlier("4.1", Versions.Spark41)
lazy val spark40 = earlier("4.0", Versions.Spark40)

def earlier(version: String, spark: String): Project =
  Project(s"spark${version.replace(".", "")}", file(s"jvm/spark/earlier/$version"))
    .dependsOn(core)
    .settings(sourcesFor(version))
    .settings(
      scalacOptions ++= strictScalac,
      Compile / unmanagedSourceDirectories += (spark43 / Compile / scalaSource).value,
      libraryDependencies += "org.apache.spark" %% "spark-sql" % spark % Provided,
      // The server alone; what it needs beside Spark is in it.
      libraryDependencies +=
        ("org.apache.spark" %% "spark-connect" % spark % Provided).intransitive(),
      libraryDependencies ++= TestLibraries.modules,
      Test / unmanagedSources ++= EarlierVersionTests
        .sources((spark43 / Test / scalaSource).value, version),
      Test / unmanagedResourceDirectories += (spark43 / Test / resourceDirectory).value,
      scalafmtOnCompile := false,
      // The others are checked where they are compiled first.
      Compile / scalafmt / unmanagedSources :=
        SparkVersions.shimSources((spark43 / baseDirectory).value / "src" / "main", version),
      Test / scalafmt / unmanagedSources :=
        SparkVersions.shimSources((spark43 / baseDirectory).value / "src" / "test", version)
    )
    .settings(testSettings)
    .settings(
      Test / javaOptions ++= ChildJvm.s3Options((spark43 / update).value)
    )
    .settings(lineAssemblySettings)

lazy val bench = (project in file("jvm/bench"))
  .dependsOn(spark43)
  .settings(onPySpark)
  .settings(
    name := "cleancut-bench",
    run / fork := true,
    run / baseDirectory := (LocalRootProject / baseDirectory).value,
    run / javaOptions ++= PySpark.javaOptions(pySparkHome.value),
    run / envVars ++= localCluster.value,
    run / outputStrategy := Some(StdoutOutput),
    Compile / mainClass := Some("io.cleancut.bench.Bench"),
    assembly / skip := true
  )

// Beside Spark's own state store through Hadoop's S3A. Outside of the root aggregate too: what S3A
// needs is 690 MB.
lazy val s3a = (project in file("jvm/s3a"))
  .settings(onPySpark)
  .settings(
    name := "cleancut-s3a",
    publish / skip := true,
    libraryDependencies += "org.apache.hadoop" % "hadoop-aws" % Versions.Hadoop,
    // The jar that users get, whose SDK has other names than that of S3A.
    Compile / unmanagedJars ++=
      Seq((core / assembly).value, (spark43 / assembly).value).map(Attributed.blank),
    Compile / unmanagedSources ++= S3aBench.sources(
      (spark43 / Test / scalaSource).value,
      (bench / Compile / scalaSource).value
    ),
    run / fork := true,
    run / baseDirectory := (LocalRootProject / baseDirectory).value,
    run / javaOptions ++= PySpark.javaOptions(pySparkHome.value) :+ "-Xmx4g",
    run / outputStrategy := Some(StdoutOutput),
    Compile / mainClass := Some("io.cleancut.s3a.CheckpointBench"),
    assembly / skip := true
  )

// Spark's own tests, on the Spark that they were published with. Outside of the root aggregate, so
// that no other task downloads them.
lazy val suites = (project in file("jvm/suites"))
  .settings(
    name := "cleancut-suites",
    publish / skip := true,
    scalacOptions ++= strictScalac,
    libraryDependencies ++= SparkSuites.modules,
    Compile / unmanagedSources += SparkSuites.checkedMemory((spark43 / Test / scalaSource).value),
    Compile / unmanagedJars += (core / assembly).value,
    Compile / unmanagedJars += (spark42 / assembly).value,
    // Unpacked, because some tests open their resources as files.
    Compile / unmanagedJars += SparkSuites.unpacked(update.value, target.value),
    run / fork := true,
    run / baseDirectory := target.value,
    run / javaOptions ++= PySpark.javaOptions(pySparkHome.value) ++ SparkSuites.javaOptions,
    run / javaOptions += s"-Dspark.test.home=${target.value}",
    // What local-cluster needs where there are no directories of a Spark that was built.
    run / envVars ++= Map(
      "SPARK_TESTING" -> "1",
      "SPARK_SCALA_VERSION" -> scalaBinaryVersion.value
    ),
    run / outputStrategy := Some(StdoutOutput),
    Compile / mainClass := Some("io.cleancut.suites.RunSuites")
  )

// A file in `.cache` with the class path of a configuration.
def classPathOf(of: Configuration, name: String) = Def.task {
  val file = (LocalRootProject / baseDirectory).value / ".cache" / s"$name.classpath"
  IO.write(file, ChildJvm.classPath(update.value, of))
  file
}

// What Python's long tests of sinks write to, in `.cache`. Outside of the root aggregate, so that
// no other task downloads it.
lazy val servers = (project in file("jvm/servers"))
  .settings(
    name := "cleancut-servers",
    publish / skip := true,
    autoScalaLibrary := false,
    ivyConfigurations ++= TestServers.configurations,
    libraryDependencies ++= TestServers.modules,
    kafkaClassPath := classPathOf(TestServers.Kafka, "kafka").value,
    yarnClassPath := classPathOf(TestServers.Yarn, "yarn").value,
    jdbcClassPath := classPathOf(TestServers.Jdbc, "postgres-jdbc").value,
    sparkKafkaClassPath := classPathOf(TestServers.SparkKafka, "spark-kafka").value,
    sparkDeltaClassPath := classPathOf(TestServers.SparkDelta, "spark-delta").value,
    sparkIcebergClassPath := classPathOf(TestServers.SparkIceberg, "spark-iceberg").value,
    mariaDb := TestServers.unpacked(
      update.value,
      (LocalRootProject / baseDirectory).value / ".cache" / "mariadb"
    )
  )

// local-cluster starts executors as Spark's own scripts would, which set these two.
lazy val localCluster = Def.setting(
  Map(
    "SPARK_HOME" -> pySparkHome.value.getPath,
    "SPARK_SCALA_VERSION" -> scalaBinaryVersion.value
  )
)

lazy val testSettings = Seq(
  Test / fork := true,
  // Of groups of suites, which have a JVM each; within one, suites follow each other.
  Test / parallelExecution := true,
  Test / testForkedParallel := false,
  Test / baseDirectory := (LocalRootProject / baseDirectory).value,
  Test / javaOptions ++= PySpark.javaOptions(pySparkHome.value),
  Test / javaOptions ++= Seq("-Xmx3g", s"-Dcleancut.memory.class=${SparkSuites.CheckedMemory}"),
  // The bases of tests are small; those of the end-to-end tests of Python are read as a whole.
  Test / javaOptions += "-Dcleancut.lazyRestore.minBytes=0",
  Test / testGrouping :=
    TestGroups.byKind((Test / definedTests).value, (Test / forkOptions).value),
  // D: durations. F: full stack traces. W: no colour.
  Test / testOptions += Tests.Argument(TestFrameworks.ScalaTest, "-oDWF"),
  Test / testOptions ++= {
    val withoutLong =
      Tests.Argument(TestFrameworks.ScalaTest, "-l", "io.cleancut.testkit.LongTest")
    if (sys.env.contains("CLEANCUT_ALL_DRAWS")) Nil else Seq(withoutLong)
  }
)

lazy val childJvmSettings = Seq(
  Test / javaOptions ++= ChildJvm.s3Options(update.value),
  Test / javaOptions ++= Seq(
    // The jars that users get are a part of what is tested.
    s"-Dcleancut.test.jars=${(core / usersJar).value},${usersJar.value}",
    s"-Dcleancut.test.otherSdk=${ChildJvm.classPath(update.value, ChildJvm.OtherSdk)}"
  ),
  Test / envVars ++= localCluster.value,
  // What `make versitygw` compiles; Node and 360 MB of packages, which `make stores` fetches; Ceph.
  Test / testOptions ++= Seq(
    "VersityGatewaySuite" -> "CLEANCUT_VERSITYGW",
    "R2SimulatorSuite" -> "CLEANCUT_R2_SIMULATOR",
    "RadosGatewaySuite" -> "CLEANCUT_CEPH",
    // A name node and a data node, whose start alone takes as long as other suites.
    "HdfsStoreSuite" -> "CLEANCUT_ALL_DRAWS",
    "HdfsCheckpointSuite" -> "CLEANCUT_ALL_DRAWS"
  ).map { case (suite, variable) =>
    Tests.Filter(name => !name.endsWith(suite) || sys.env.contains(variable))
  }
)

lazy val usersJar = taskKey[File]("The jar that users get.")

lazy val assemblySettings = Seq[Setting[_]](
  // `make test` has made it when tests begin, and processes beside this one have it open.
  usersJar := Def.taskDyn {
    val made = (assembly / assemblyOutputPath).value
    if (sys.env.contains("CLEANCUT_JARS_ARE_MADE")) Def.task(made) else Def.task(assembly.value)
  }.value,
  assembly / assemblyJarName :=
    s"${moduleName.value}_${scalaBinaryVersion.value}-${version.value}.jar",
  assembly / assemblyOutputPath :=
    (LocalRootProject / baseDirectory).value / "python" / "cleancut" / "jars" /
      (assembly / assemblyJarName).value,
  // Without Spark's jars, which are always there.
  assembly / fullClasspath := (Compile / exportedProducts).value ++
    (Compile / managedClasspath).value,
  assemblyPackageScala / assembleArtifact := false,
  assembly / assemblyShadeRules := Shading.rules,
  assembly / assemblyMergeStrategy := Shading.merge,
  assembly / test := {}
) ++ Publishing.settings

// Without the classes of core, which are in the other jar.
lazy val lineAssemblySettings = assemblySettings :+
  (assembly / fullClasspath := (Compile / exportedProducts).value)
