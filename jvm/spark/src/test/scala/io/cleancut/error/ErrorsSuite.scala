package io.cleancut.error

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, ObjectInputStream, ObjectOutputStream}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.StoreId
import io.cleancut.format.Channels

class ErrorsSuite extends AnyFunSuite {
  private val channel = StoreId(0L, 3, Channels.name(0))

  private val writeFailed = new java.io.IOException("No space left on device")

  // One error of each factory, so that every class that the JVM raises is rendered.
  private val samples: Seq[CleancutException] = Seq(
    Errors.commitFailed("file:/ckpt/7-ab.delta", 7L, writeFailed),
    Errors.confInvalid(Seq("a must be b.", "c is not a key.")),
    Errors.fileSystemReadOnly("create", "s3://b/q/x"),
    Errors.channelCorrupted("file:/c/_epochs/7.json", "it is not JSON"),
    Errors.channelEmpty("file:/c"),
    Errors.channelExpired("file:/c", 3L, 7L),
    Errors.channelInvalid("file:/c/_epochs/7.json", 7L),
    Errors.channelRolledBack("file:/c", "3f7a", 7L, 9L, "epoch 5"),
    Errors.formatUnknown("file:/ckpt/format.json", "9", "1"),
    Errors.frameCorrupted("file:/ckpt/7-ab.delta", 0L, 3, "default", 7L, "trailer missing"),
    Errors.frameMisplaced("file:/ckpt/7-ab.delta", "partition 3", "partition 4"),
    Errors.frameMissing("file:/ckpt/0/3/default", 0L, 3, "default", 7L, "no base"),
    Errors.checkpointNotFound("file:/ckpt", "file:/ckpt/cleancut/format.json does not exist"),
    Errors.coordinatorMissing("s3://b/q"),
    Errors.operationIncomplete("file:/ckpt", "edit", 9L),
    Errors.operationRefused("adopt", "file:/ckpt", "the query runs"),
    Errors.planOutdated("rescale", "file:/ckpt", "the last epoch was 2", "cleancut rescale"),
    Errors.rescaleInterrupted("file:/ckpt", 4, 9L, new RuntimeException("the disk is full")),
    Errors.rewriteMismatch("file:/ckpt/state", 0L, 3, "default", 7L, 6L),
    Errors.sealBatchInvalid(7),
    Errors.sequenceBroken("[eu,7]", "42", "its predecessor is 42"),
    Errors.sequenceFull("[eu,7]", 1000, 41L, 43L),
    Errors.sequenceGap("[eu,7]", 41L, 43L, 1700000000000L),
    Errors.sequenceInvalid("key is empty"),
    Errors.inFlightNotConsumed("s3://b/q", 6L, Seq(channel)),
    Errors.inFlightSchemaMismatch("s3://b/q", channel, "a BIGINT", "a INT NOT NULL"),
    Errors.inFlightInputMismatch("s3://b/q", 7L, "s3://b/q/7.sealed", channel, 100L, 99L),
    Errors.coordinatorUnreachable("s3://b/q", "operator=0 7", "the run has been followed"),
    Errors.cutCorrupted("s3://b/q/cleancut/cuts/7.cut", "its checksum is wrong"),
    Errors.offsetsDeleted("s3://b/q", Some(6L), 7L),
    Errors.offsetsMissing("s3://b/q", 7L, "s3://b/q/offsets/7"),
    Errors.metadataMissing("s3://b/q", "s3://b/q/metadata", "3f7a"),
    Errors.maintenanceFailed("s3://b/q", "sweep", 4, 3, "java.io.IOException: no rights"),
    Errors.commitLogAhead("file:/ckpt", 9L, 7L),
    Errors.queryIncompatible("file:/ckpt", 7L, "operator 0: it is a dedupe in the checkpoint"),
    Errors.cutsRequired("file:/ckpt", "it has the cut of epoch 7", "the key is false"),
    Errors.offsetLogConflict("s3://b/q/offsets/0", new java.io.IOException("offsets/0")),
    Errors.epochIncomplete(
      "s3://b/q",
      7L,
      "operator=0 partition=3 store=default (last opened by task attempt 9 in executor 1 on h)"
    ),
    Errors.fenced("s3://b/q", 7L, "generation 4"),
    Errors.objectLocationInvalid("s3:///q", "it names no bucket"),
    Errors.objectStoreRefused("put", "s3://b/q/1.cut", "AccessDenied (403)", writeFailed),
    Errors.objectStoreUnavailable("put", "s3://b/q/1.cut", 9, 120000L, writeFailed),
    Errors.objectStoreUnsafe("s3://b/q", "it returns other bytes than were put", "Set dialect."),
    Errors.objectTooLarge("the cut of epoch 7", 1L << 30, "9 stores", "Use fewer stores."),
    Errors.offHeapExhausted(1L << 20, 1L << 30),
    Errors.savepointInvalid("before", "s3://b/q", "there is no cut of epoch 7"),
    Errors.modeRequiresCuts("file:/ckpt", "unaligned"),
    Errors.pythonPackageMissing("count", "/usr/bin/python3", "pandas protobuf"),
    Errors.providerMismatch("file:/ckpt", "a.Provider", "the query began with it"),
    Errors.spillFailed(1L << 20, 1L << 30, writeFailed),
    Errors.platformUnsupported("it is big-endian"),
    Errors.rowTooLarge("default", 1L << 33, 1L << 31),
    Errors.storeBusy(0L, 3, "default", 7L, "task 12", 120000L),
    Errors.storeClosed("default", "put"),
    Errors.storeTooLarge("default", 1L << 40),
    Errors.unsupportedFeature("column families", "this release has one family a store"),
    Errors.versionUnsupported("Spark is 5.0.0.", "4.0.x, 4.1.x, 4.2.x or 4.3.x")
  )

  private def factories: Set[String] =
    Errors.getClass.getDeclaredMethods.toSeq
      .filter(method => method.getReturnType == classOf[CleancutException])
      .map(_.getName)
      .filterNot(name => name == "make" || name.contains("$"))
      .toSet

  private def factoryOf(errorId: String): String = {
    val words = errorId.stripPrefix("CLEANCUT_").split('_').map(_.toLowerCase)
    words.head + words.tail.map(_.capitalize).mkString
  }

  test("every factory has a sample here and is named like its class") {
    assert(samples.map(sample => factoryOf(sample.errorId)).toSet == factories)
  }

  samples.foreach { sample =>
    test(s"${sample.errorId} renders five lines with every value") {
      val text = sample.getMessage
      assert(text.startsWith(s"[${sample.errorId}] ") && text.linesIterator.size == 5)
      assert(sample.summary == text.linesIterator.next())
      assert(ErrorClass.Placeholder.findFirstIn(text).isEmpty)
      assert(text.endsWith(s"SQLSTATE: ${sample.getSqlState}. ${sample.getUrl}"))
      sample.params.foreach { case (name, value) => assert(text.contains(value), s"$name: $text") }
    }
  }

  ErrorCatalog.classes.values.foreach { errorClass =>
    test(s"${errorClass.id} is well-formed") {
      assert(errorClass.id.matches("CLEANCUT(_[A-Z0-9]+)+"))
      assert(errorClass.message.matches(".*[.>]"))
      assert(Seq("No.", "Possibly.").exists(errorClass.dataLoss.startsWith))
    }
  }

  test("the classes are sorted in the file") {
    val ids = "(?m)^  \"(\\w+)\": \\{$".r.findAllMatchIn(ErrorCatalog.json).map(_.group(1)).toSeq
    assert(ids == ids.sorted && ids.toSet == ErrorCatalog.classes.keySet)
  }

  test("an exception keeps id, kind and facts through serialization") {
    val sent = samples.head
    val bytes = new ByteArrayOutputStream
    new ObjectOutputStream(bytes).writeObject(sent)
    val received = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray))
      .readObject()
      .asInstanceOf[CleancutException]
    assert(received.getErrorId == sent.getErrorId)
    assert(received.kind eq ErrorKind.Retry)
    assert(received.getParams == sent.getParams)
    assert(received.getMessage == sent.getMessage)
    assert(received.getCause.getMessage == writeFailed.getMessage)
  }

  samples.foreach { sample =>
    test(s"${sample.errorId} fits a screen although its values are long") {
      val long = sample.params.map { case (name, _) => name -> s"$name <x>\n " * 3000 }
      val errorClass = ErrorCatalog.classes(sample.errorId)
      val fitted = errorClass.fitted(long)
      assert(errorClass.render(fitted).length <= ErrorClass.MaxMessage)
      assert(fitted.forall { case (name, value) => value.startsWith(s"$name <x>") })
      assert(errorClass.render(fitted).linesIterator.size == 5)
      assert(errorClass.fitted(sample.params) == sample.params)
    }
  }

  test("what a message omits is in its cause") {
    val trace = new java.io.IOException("x" * 20000)
    val thrown = Errors.objectStoreUnavailable("put", "s3://b/q/1.cut", 9, 120000L, trace)
    assert(thrown.getMessage.length <= ErrorClass.MaxMessage)
    assert(thrown.getMessage.contains("…"))
    assert(thrown.getCause eq trace)
  }

  test("values that no line names are appended to the first line in order") {
    val text = Errors.frameCorrupted("p", 1L, 2, "default", 7L, "cut short").getMessage
    val first = text.linesIterator.next()
    assert(first.endsWith(". operator=1 partition=2 store=default version=7"))
    assert(!text.contains("path=") && !text.contains("detail="))
  }

  test("brackets and dollars within a value are unchanged") {
    val text = Errors.storeClosed("<operation>$1", "put").getMessage
    assert(text.contains("store <operation>$1 was used (put)"))
  }

  test("Java receives facts in their order") {
    val names = Errors.rowTooLarge("default", 2L, 1L).getParams.keySet.asScala.toSeq
    assert(names == Seq("store", "sizeBytes", "limitBytes"))
  }

  private def rejected(json: String): String =
    intercept[Exception](ErrorCatalog.parse(json)).getMessage

  private val entry = """{"message": ["m"], "sqlState": "XX000", "kind": "REPORT",
    "dataLoss": "No.", "cause": "c", "diagnose": "d", "fix": "f"}"""

  test("a duplicate id is refused") {
    assert(ErrorCatalog.parse(s"""{"A": $entry}""").keySet == Set("A"))
    assert(rejected(s"""{"A": $entry, "A": $entry}""").contains("Duplicate field 'A'"))
  }

  test("an unknown kind is refused by name") {
    assert(rejected(s"""{"A": ${entry.replace("REPORT", "OOPS")}}""").contains("OOPS"))
  }

  Seq("message", "sqlState", "kind", "dataLoss", "cause", "diagnose", "fix").foreach { name =>
    test(s"a missing $name is refused by name") {
      val without = entry.replace(s"\"$name\"", "\"other\"")
      assert(rejected(s"""{"A": $without}""").contains(s"A has no text $name"))
    }
  }

  test("a message of two lines is refused") {
    val two = entry.replace("[\"m\"]", "[\"m\", \"n\"]")
    assert(rejected(s"""{"A": $two}""").contains("A has no text message"))
  }
}
