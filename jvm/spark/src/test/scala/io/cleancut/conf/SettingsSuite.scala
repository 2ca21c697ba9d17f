package io.cleancut.conf

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.docs.KeysDoc
import io.cleancut.error.CleancutException

class SettingsSuite extends AnyFunSuite {
  private def key(shortName: String) = Keys.Prefix + shortName

  private def problems(confs: (String, String)*): String = {
    val thrown = intercept[CleancutException](Settings.from(confs.toMap))
    assert(thrown.errorId == "CLEANCUT_CONF_INVALID")
    thrown.params.toMap.apply("problems")
  }

  test("an empty configuration yields the defaults") {
    val objects = ObjectStoreSettings(
      dialect = None,
      endpoint = None,
      pathStyle = None,
      region = None,
      requestTimeoutMs = 120000L,
      encryption = None,
      requesterPays = false,
      accessPoint = None,
      maxConnections = 64,
      trustedScheme = None,
      profile = None
    )
    val channels =
      ChannelSettings(CaptureMode.Aligned, maxEpochMs = 0L, 64L << 20, splitsGroups = true, 120000L)
    val expected =
      Settings(
        -2,
        keepsReplaced = false,
        lazyRestore = true,
        mergedAggregation = true,
        acceleratesPython = true,
        localCacheBytes = 10L << 30,
        standbyReplicas = 0,
        lockAcquireTimeoutMs = 120000L,
        maxOffHeapMemory = KeyType.Auto,
        realTimeMode = false,
        checksCompatibility = false,
        requiresProvider = false,
        cuts = None,
        pipelinedCuts = None,
        handoverTimeoutMs = 0L,
        channels = channels,
        cutRetentionMs = 0L,
        historyRetentionMs = 90L * 24 * 3600 * 1000,
        uiEpochs = 2000,
        statePartitions = None,
        objectStore = objects
      )
    assert(Settings.Default == expected)
  }

  test("the provider is required if a requested feature needs it, unless the key is set") {
    def requires(confs: (String, String)*): Boolean =
      Settings.from(confs.map { case (name, value) => key(name) -> value }.toMap).requiresProvider
    assert(requires("cuts" -> "true") && requires("mode" -> "auto"))
    assert(!requires("cuts" -> "false") && !requires("mode" -> "aligned"))
    assert(
      requires("requireProvider" -> "true") && !requires(
        "cuts" -> "true",
        "requireProvider" -> "false"
      )
    )
  }

  test("a removed key is refused with the name of its successor, together with other problems") {
    val removed = Seq(
      RemovedKey("barrierTimeout", "9.0.0", Some(Keys.AlignmentTimeout), "Its unit was seconds."),
      RemovedKey("eagerWrites", "9.0.0", None, "Writes are always eager.")
    )
    val confs = Map("barrierTimeout" -> "3", "eagerWrites" -> "true", "mood" -> "aligned")
    val thrown = intercept[CleancutException](
      Settings.from(confs.map { case (name, value) => key(name) -> value }, removed)
    )
    val reported = thrown.params.toMap.apply("problems")
    assert(
      reported.contains(
        s"${key("barrierTimeout")} was removed in 9.0.0. Set ${key("alignmentTimeout")} instead. " +
          "Its unit was seconds."
      )
    )
    assert(
      reported.contains(s"${key("eagerWrites")} was removed in 9.0.0. Remove it. Writes are always")
    )
    assert(reported.contains(s"${key("mood")} is not a key; the nearest is ${key("mode")}."))
    val page = KeysDoc.markdown(removed)
    assert(page.contains("| `barrierTimeout` | 9.0.0 | `alignmentTimeout` | Its unit was seconds."))
    assert(page.contains("| `eagerWrites` | 9.0.0 | none | Writes are always eager. |"))
    assert(KeysDoc.markdown.contains("## Removed keys") == Keys.removed.nonEmpty)
  }

  test("no removed key is declared, and every successor is") {
    val known = Keys.all.map(_.name)
    Keys.removed.foreach { removed =>
      assert(!known.contains(removed.name))
      assert(removed.successor.forall(Keys.all.contains(_)))
      assert(removed.advice.endsWith("."))
    }
    assert(Keys.removed.map(_.name).distinct.size == Keys.removed.size)
  }

  test("each removed key is refused with the key that replaces it") {
    assert(Keys.removed.size == 16)
    Keys.removed.foreach { removed =>
      val successor = removed.successor.map(_.name)
      assert(problems(removed.name -> "1").contains(s"Set ${successor.get} instead."))
    }
  }

  test("values are read with their units") {
    val read = Settings.from(
      Map(
        key("compressionLevel") -> "-7",
        key("lockAcquireTimeout") -> " 2 m ",
        key("realTimeMode") -> " TRUE",
        "spark.other" -> "x"
      )
    )
    val expected =
      Settings.Default.copy(
        compressionLevel = -7,
        lockAcquireTimeoutMs = 120000L,
        realTimeMode = true
      )
    assert(read == expected)
  }

  Seq("0ms" -> 0L, "250ms" -> 250L, "3s" -> 3000L, "2m" -> 120000L, "1h" -> 3600000L).foreach {
    case (text, expectedMs) =>
      test(s"the duration $text is $expectedMs ms") {
        assert(
          Settings.from(Map(key("lockAcquireTimeout") -> text)).lockAcquireTimeoutMs == expectedMs
        )
      }
  }

  Seq("", "120", "-1s", "1.5s", "2 weeks", "61m", "99999999999999999999s", "s").foreach { text =>
    test(s"the duration '$text' is refused with the allowed units") {
      assert(problems(key("lockAcquireTimeout") -> text).contains("h, m, s, ms"))
    }
  }

  test("the mode determines when a task is overtaken, and aligned captures nothing") {
    def channels(confs: (String, String)*) =
      Settings.from(confs.map { case (name, text) => key(name) -> text }.toMap).channels
    assert(channels("mode" -> "unaligned").mode == CaptureMode.Unaligned)
    val auto = channels("mode" -> "auto", "alignmentTimeout" -> "3s")
    assert(auto.mode == CaptureMode.Auto(3000000000L))
    val limited = channels("mode" -> "unaligned", "maxEpochDuration" -> "2s")
    assert(limited.capture == Capture(CaptureMode.Unaligned, Some(2000000000L)))
    assert(channels("maxEpochDuration" -> "2s").capture == Capture.Off)
    assert(problems(key("mode") -> "fast").contains("aligned, unaligned or auto"))
    assert(problems(key("maxInFlightBytes") -> "auto").contains("from 1k up"))
    assert(!channels("splitGroups" -> "false").splitsGroups)
    assert(problems(key("splitGroups") -> "no").contains("true or false"))
  }

  Seq("", "-8", "20", "1.0", "fast").foreach { text =>
    test(s"the compression level '$text' is refused with its range") {
      assert(problems(key("compressionLevel") -> text).contains("from -7 to 19"))
    }
  }

  Seq("", "yes", "1").foreach { text =>
    test(s"the switch '$text' is refused") {
      assert(problems(key("realTimeMode") -> text).contains("true or false"))
    }
  }

  test("the keys of the object store are read together") {
    val read = Settings.from(
      Map(
        key("s3.endpoint") -> "https://account.r2.cloudflarestorage.com",
        key("s3.dialect") -> "r2",
        key("s3.pathStyle") -> "true",
        key("s3.region") -> "eu-west-1",
        key("s3.profile") -> "second-site",
        key("requestTimeout") -> "30s"
      )
    )
    val endpoint = Some("https://account.r2.cloudflarestorage.com")
    val expected =
      ObjectStoreSettings.Default.copy(
        dialect = Some("r2"),
        endpoint = endpoint,
        pathStyle = Some(true),
        region = Some("eu-west-1"),
        requestTimeoutMs = 30000L,
        profile = Some("second-site")
      )
    assert(read.objectStore == expected)
  }

  Seq(
    "s3.endpoint" -> "127.0.0.1:9000",
    "s3.endpoint" -> "s3://bucket",
    "s3.endpoint" -> "http://",
    "s3.dialect" -> "R2",
    "s3.dialect" -> "minio",
    "s3.pathStyle" -> "yes",
    "s3.region" -> "",
    "s3.region" -> "eu west"
  ).foreach { case (name, text) =>
    test(s"the $name '$text' is refused with the allowed values") {
      assert(problems(key(name) -> text).contains(s"${key(name)} must be auto, "))
    }
  }

  test("all problems are reported together, each with its key") {
    val reported = problems(
      key("compressionLevel") -> "99",
      key("lockAcquireTimeout") -> "soon",
      key("compresionLevel") -> "3"
    )
    assert(reported.contains(s"${key("compressionLevel")} must be"))
    assert(reported.contains(s"${key("lockAcquireTimeout")} must be"))
    assert(reported.contains(s"${key("compresionLevel")} is not a key"))
  }

  Seq(
    "compresionLevel" -> "compressionLevel",
    "compressionlevel" -> "compressionLevel",
    "lockAcquireTimeoutMs" -> "lockAcquireTimeout",
    "lockacquiretimeout" -> "lockAcquireTimeout"
  ).foreach { case (typed, meant) =>
    test(s"the unknown key $typed suggests $meant") {
      assert(problems(key(typed) -> "1").contains(s"the nearest is ${key(meant)}."))
    }
  }

  test("keys outside the prefix are ignored") {
    val foreign = Map("spark.sql.streaming.stateStore.minDeltasForSnapshot" -> "nonsense")
    assert(Settings.from(foreign) == Settings.Default)
  }

  test("the memory limit is a size, or half of the heap") {
    def bound(text: String) = Settings.from(Map(Keys.MaxOffHeapMemory.name -> text))
    assert(bound("64m").maxOffHeapBytes(maxHeapBytes = 1L << 40) == 64L << 20)
    assert(bound(" 3 g ").maxOffHeapBytes(maxHeapBytes = 8L) == 3L << 30)
    assert(bound("auto").maxOffHeapBytes(maxHeapBytes = 8L << 30) == 4L << 30)
    for (wrong <- Seq("1023k", "64", "-1m", "1.5g", "1gb", ""))
      assert(intercept[CleancutException](bound(wrong)).errorId == "CLEANCUT_CONF_INVALID")
  }
}
