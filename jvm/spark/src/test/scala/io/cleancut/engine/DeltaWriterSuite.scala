package io.cleancut.engine

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.engine.memory.{Bytes, Memory}
import io.cleancut.format.frame.FamilySchema
import io.cleancut.testkit.{Blob, Frames, TestMemory}

/** The records of a delta for a key that an epoch changed more than once. */
class DeltaWriterSuite extends AnyFunSuite {
  import DeltaWriterSuite._

  test("a delta has the last change of a key, or all changes if configured") {
    val twice = Seq(Put("a", 1), Put("a", 2), Put("b", 3), Remove("b"))
    assert(delta(Nil, twice) == Seq(Put("a", 2), Remove("b")))
    assert(delta(Nil, twice, keepsReplaced = true) == twice)
  }

  test("values are added to a list, and replace it after a removal") {
    val added = Seq(Merge("a", 1), Merge("a", 2))
    assert(delta(Nil, added) == added)
    assert(delta(Seq(Put("a", 0), Remove("a")), added) == added)
    assert(delta(Seq(Put("a", 0)), added) == added)
    // The removal is omitted, so the next record has to replace the list.
    assert(delta(Seq(Put("a", 0)), Remove("a") +: added) == Seq(Put("a", 1), Merge("a", 2)))
    val all = delta(Seq(Put("a", 0)), Remove("a") +: added, keepsReplaced = true)
    assert(all == Remove("a") +: added)
  }

  test("a base begins each list with a put") {
    TestMemory.using("checked") { owned =>
      val log = logWith(Seq(Merge("a", 1), Merge("a", 2), Merge("b", 3)), owned)
      val base =
        Frames.write(Frames.base(Frames.version(1), keys = 2))(log.writeBase(log.latest, _))
      assert(changes(base).toSet == Set(Put("a", 1), Merge("a", 2), Put("b", 3)))
      log.release()
    }
  }

  test("a delta has a family that is created after its first block") {
    TestMemory.using("checked") { owned =>
      val log = logWith(Nil, owned)
      val opened = Seq.newBuilder[Frames.Open]
      val writer = log.deltaTo { families =>
        val identity = Frames.delta(Frames.version(2), Some(Frames.version(1)))
        val open = new Frames.Open(identity.copy(families = families))
        opened += open
        open.writer
      }
      log.family(Lists.name).get.table.put(bytes("a"), Blob.bytes(aBlock))
      writer.cursor(log.family(Lists.name).get).keepUp()
      assert(opened.result().size == 1)
      val later = log.declare(Lists.copy(name = "later"))
      later.table.put(bytes("b"), valueOf(1))
      writer.finish()
      assert(opened.result().size == 2)
      opened.result().last.done().read { (reader, scratch) =>
        assert(reader.identity.families.map(_.name) == Seq(Lists.name, "later"))
        val records = new FrameRecords(reader, scratch)
        val families =
          Iterator.continually(records.advance()).takeWhile(_ == true).map(_ => records.family)
        assert(families.toSeq == Seq(Lists.id, later.schema.id))
      }
      log.release()
    }
  }

  private def delta(before: Seq[Change], epoch: Seq[Change], keepsReplaced: Boolean = false) =
    TestMemory.using("checked") { owned =>
      val log = logWith(before, owned)
      var open: Frames.Open = null
      val writer = log.deltaTo(
        { families =>
          val identity = Frames.delta(Frames.version(2), Some(Frames.version(1)))
          open = new Frames.Open(identity.copy(families = families))
          open.writer
        },
        keepsReplaced
      )
      epoch.foreach(apply(log, _))
      writer.finish()
      log.release()
      changes(open.done())
    }

  private def logWith(changes: Seq[Change], owned: TestMemory.Owned): StateLog = {
    val log = new StateLog(Frames.Store, _ => None, owned.memory, owned.account)
    log.declare(Lists)
    changes.foreach(apply(log, _))
    log.seal(Frames.version(1), keep = 1)
    log
  }

  private def apply(log: StateLog, change: Change): Unit = {
    val table = log.family(Lists.name).get.table
    change match {
      case Put(key, value)   => table.put(bytes(key), valueOf(value))
      case Merge(key, value) => table.merge(bytes(key), valueOf(value))
      case Remove(key)       =>
        assert(table.remove(bytes(key)))
        ()
    }
  }

  private def changes(frame: Frames.Frame): Seq[Change] = frame.read { (reader, scratch) =>
    val records = new FrameRecords(reader, scratch)
    val changes = Seq.newBuilder[Change]
    while (records.advance()) {
      val key = records.key.toArray(Memory.access).map(_.toChar).mkString
      def value = records.value.toArray(Memory.access).head.toInt
      changes += (records.operation match {
        case RecordOperation.Put   => Put(key, value)
        case RecordOperation.Merge => Merge(key, value)
        case _                     => Remove(key)
      })
    }
    changes.result()
  }

  private def bytes(key: String): Bytes = Blob.bytes(Blob.of(key.getBytes("US-ASCII").toSeq: _*))

  private def aBlock = Blob.of(Seq.fill(BlockEncoder.TargetBytes)(1.toByte): _*)

  private def valueOf(number: Int): Bytes = Blob.bytes(Blob.of(number.toByte))
}

private object DeltaWriterSuite {
  val Lists: FamilySchema =
    FamilySchema(0, "lists", "{}", "{}", "{}", isMultiValued = true, isInternal = false)

  sealed trait Change
  final case class Put(key: String, value: Int) extends Change
  final case class Merge(key: String, value: Int) extends Change
  final case class Remove(key: String) extends Change
}
