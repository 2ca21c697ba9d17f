package io.cleancut.engine

import scala.util.Random

import org.scalatest.Assertions
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.StateVersion
import io.cleancut.engine.FamiliesMachine.{isOrdered, schemaOf, Delta, FamilyNames, State}
import io.cleancut.engine.RecordOperation.{Merge, Put, Remove}
import io.cleancut.engine.SourceLoad.Selection
import io.cleancut.error.CleancutException
import io.cleancut.format.frame.{BlockScratch, FamilySchema, FrameIdentity}
import io.cleancut.testkit.{Blob, Frames, Seeded, TestMemory}
import io.cleancut.testkit.Blob.Blob

/** Stores that take the rows of their partition from the chains of others. */
class SourceLoadSuite extends AnyFunSuite with Seeded {
  import SourceLoadSuite._

  for (mode <- TestMemory.modes)
    test(s"stores have the rows of their partition at any ratio, in $mode memory") {
      var taken = 0
      var leftOut = 0
      forSeeds(160) { random =>
        TestMemory.using(mode) { owned =>
          val machine = new SourcesMachine(random, owned)
          machine.run()
          taken += machine.taken
          leftOut += machine.leftOut
        }
      }
      info(s"$taken rows were taken, $leftOut were left out")
      assert((taken > 0 && leftOut > 0) || sys.env.contains("CLEANCUT_SEED"))
    }

  /** Loads chains as the sources of one store; returns the number of values of each key. */
  private def load(sources: Seq[Frames.Frame]*)(takes: Blob => Boolean): Map[Blob, Int] =
    TestMemory.using("checked") { owned =>
      val log = new StateLog(Frames.Store, _ => None, owned.memory, owned.account)
      val selection = Selection(
        share = 1.0,
        _ => Some(key => takes(Blob.of(key.toArray(owned.memory).toSeq: _*)))
      )
      try {
        val loads = sources.map { frames =>
          val source = new SourceLoad(log, selection)
          frames.foreach(_.read(source.load))
          source
        }
        log.settle(SourceLoad.union(loads.map(_.families)))
        val table = log.family(OneFamily.Schema.name).get.table
        val places = Seq(One, Other).map(key => key -> table.find(Blob.bytes(key), Record.NoBound))
        places.collect { case (key, at) if at != 0L => key -> table.valuesAt(at).length }.toMap
      } finally log.release()
    }

  private def all(key: Blob): Boolean = key.nonEmpty

  private def damage(detail: String)(load: => Any): Unit = {
    val error = intercept[CleancutException](load)
    assert(error.getErrorId == "CLEANCUT_FRAME_CORRUPTED")
    assert(error.getMessage.contains(detail))
    ()
  }

  test("two sources with the same key are refused, whatever the later one does with it") {
    val one = base(keys = 1)(Put -> One)
    val other = base(keys = 1)(Put -> Other)
    assert(load(Seq(one))(all) == Map(One -> 1))
    assert(load(Seq(one), Seq(other))(all) == Map(One -> 1, Other -> 1))
    damage("it is in another source")(load(Seq(one), Seq(one))(all))
    for ((change, keys) <- Seq(Put -> 2L, Merge -> 2L, Remove -> 1L)) withClue(change) {
      val next = delta(keys)(change -> One)
      load(Seq(other, next))(all)
      damage("two of the sources have the same key")(load(Seq(one), Seq(other, next))(all))
      // It matters only to a store that takes the key.
      assert(load(Seq(one), Seq(other, next))(_ == Other) == Map(Other -> 1))
    }
  }

  test("the values of a list are not added to a list of another source") {
    val list = base(keys = 1)(Put -> One, Merge -> One)
    assert(load(Seq(list))(all) == Map(One -> 2))
    damage("it is in another source")(load(Seq(list), Seq(list))(all))
    val rest = base(keys = 1)(Merge -> One)
    damage("two of the sources have the same key")(load(Seq(list), Seq(rest))(all))
  }

  test("a base with another number of keys is refused, even if all of its rows are left out") {
    val wrong = base(keys = 2)(Put -> One)
    damage("1 keys after it, and 2 in its trailer")(load(Seq(wrong))(_ => false))
    damage("a key is in it twice")(load(Seq(base(keys = 2)(Put -> One, Put -> One)))(all))
  }

  test("a delta with another number of keys is refused as long as no row was left out") {
    val begin = base(keys = 1)(Put -> One)
    def next(keys: Long) = delta(keys)(Put -> Other)
    assert(load(Seq(begin, next(2)))(all).size == 2)
    damage("2 keys after it, and 3 in its trailer")(load(Seq(begin, next(3)))(all))
    assert(load(Seq(begin, next(3)))(_ == One).size == 1)
    damage("1 selected keys of 0")(load(Seq(begin, next(0)))(_ == One))
  }
}

private object SourceLoadSuite {
  val One: Blob = Blob.of(1, 2)
  val Other: Blob = Blob.of(3, 4)

  def base(keys: Long)(records: (Byte, Blob)*): Frames.Frame =
    frame(Frames.base(Frames.version(1), keys), keys, records)

  def delta(keys: Long)(records: (Byte, Blob)*): Frames.Frame =
    frame(Frames.delta(Frames.version(2), Some(Frames.version(1))), keys, records)

  /** A frame with these operations on keys, whose trailer states this number of keys. */
  private def frame(identity: FrameIdentity, keys: Long, records: Seq[(Byte, Blob)]) =
    Frames.write(identity.copy(families = Seq(OneFamily.Schema))) { writer =>
      val bytes = records.flatMap { case (operation, key) =>
        val value = if (operation == Remove) Nil else Seq(0.toByte)
        Seq(operation, 0.toByte, key.size.toByte) ++ value.map(_ => 1.toByte) ++ key ++ value
      }.toArray
      val scratch = BlockScratch.borrow()
      try {
        scratch.growRaw(bytes.length)
        System.arraycopy(bytes, 0, scratch.raw, 0, bytes.length)
        writer.writeBlock(scratch, bytes.length, records.size)
      } finally scratch.giveBack()
      writer.finish(keys)
    }
}

/**
 * A state whose stores are changed, and redistributed by references to another number of partitions
 * and again, compared with maps.
 */
final private class SourcesMachine(random: Random, owned: TestMemory.Owned) extends Assertions {
  import SourcesMachine._
  import owned.{account, memory}

  private val pool = Vector.tabulate(80)(i => Blob.random(random, 1 + i % 17))
  private var attempts = 0

  /** Number of rows that stores took from their sources, and that they left out. */
  var taken = 0
  var leftOut = 0

  def run(): Unit = {
    var partitions = 1 + random.nextInt(9)
    var stores = Vector.tabulate(partitions)(grow(_, partitions, None))
    for (_ <- 0 to random.nextInt(3)) {
      val (before, after) = (partitions, 1 + random.nextInt(9))
      val shared = BigInt(before).gcd(after).toInt
      // Sometimes a family is dropped by the operation.
      val named = FamilyNames.filter(_ => random.nextInt(12) > 0).toSet
      stores = Vector.tabulate(after) { partition =>
        val sources = (partition % shared until before by shared).map(stores)
        grow(partition, after, Some(Reference(sources, named, partition, after)))
      }
      partitions = after
    }
  }

  /** A store that begins with a reference or empty, after some epochs. */
  private def grow(partition: Int, partitions: Int, reference: Option[Reference]): Store = {
    val log = new StateLog(Frames.Store, orderOf, memory, account)
    try {
      var store = Store(reference, Vector.empty, Map.empty, Nil)
      reference.foreach { begin =>
        store = store.copy(state = stateOf(begin))
        val loads = loadSources(log, begin, Selection.All)
        log.settle(begin.familiesOf(loads))
        assert(log.families.map(_.schema).map(_.id).distinct.size == log.families.size)
        verify(log, store.state)
        attempts += 1
        log.seal(Frames.version(1, attempts), keep = 1)
      }
      val keys = pool.filter(partitionOf(_, partitions) == partition)
      for (_ <- 0 until random.nextInt(4)) store = epoch(log, store, keys)
      store
    } finally log.release()
  }

  private def epoch(log: StateLog, before: Store, keys: Vector[Blob]): Store = {
    var state = before.state
    for (name <- FamilyNames)
      if (!state.contains(name) && (name == FamilyNames.head || random.nextInt(2) == 0)) {
        log.declare(schemaOf(name))
        state = state.updated(name, Map.empty)
      } else if (name != FamilyNames.head && random.nextInt(10) == 0) {
        log.drop(name)
        state = state.removed(name)
      }
    attempts += 1
    val delta =
      new Delta(log, Frames.version(log.latest.number + 1, attempts), keepsReplaced = false)
    if (keys.nonEmpty) for (_ <- 0 until random.nextInt(60)) {
      val family = log.families(random.nextInt(log.families.size))
      state = change(family, keys(random.nextInt(keys.size)), state)
      delta.writer.cursor(family).keepUp()
    }
    delta.writer.finish()
    log.seal(delta.target, keep = 1)
    val frames =
      if (random.nextInt(3) == 0) Vector(baseOf(log)) else before.frames :+ delta.frame.done()
    val reference = if (frames.head.identity.parent.isEmpty) None else before.reference
    Store(reference, frames, state, log.families.map(_.schema))
  }

  private def change(family: StateLog.Family, key: Blob, state: State): State = {
    val rows = state(family.schema.name)
    val value = Blob.random(random, random.nextInt(20))
    val changed = random.nextInt(4) match {
      case 0 =>
        family.table.remove(Blob.bytes(key))
        rows.removed(key)
      case 1 if family.schema.isMultiValued =>
        family.table.merge(Blob.bytes(key), Blob.bytes(value))
        rows.updated(key, rows.getOrElse(key, Vector.empty) :+ value)
      case _ =>
        family.table.put(Blob.bytes(key), Blob.bytes(value))
        rows.updated(key, Vector(value))
    }
    state.updated(family.schema.name, changed)
  }

  private def baseOf(log: StateLog): Frames.Frame = {
    val version = log.latest
    val target = StateVersion(version.number, version.id.get)
    val identity = Frames
      .base(target, version.allKeys)
      .copy(
        families = version.schemas,
        familyKeys = version.parts.map(part => part.family.schema.id -> part.mark.keys).toMap
      )
    Frames.write(identity)(log.writeBase(version, _, 1 << random.nextInt(10)))
  }

  private def stateOf(reference: Reference): State = {
    val all = for {
      source <- reference.sources
      (name, rows) <- source.state if reference.named(name)
      (selected, others) = rows.partition { case (key, _) => reference.takes(key) }
    } yield {
      taken += selected.size
      leftOut += others.size
      name -> selected
    }
    all.groupMapReduce(_._1)(_._2)(_ ++ _)
  }

  private def loadSources(
      log: StateLog,
      reference: Reference,
      outer: Selection
  ): Seq[SourceLoad] = {
    val selection = outer.of(
      Selection(
        share = 0.5,
        family =>
          Option.when(reference.named(family.name)) { key =>
            reference.takes(Blob.of(key.toArray(memory).toSeq: _*))
          }
      )
    )
    reference.sources.map { source =>
      val load = new SourceLoad(log, selection)
      source.reference.foreach { begin =>
        val sources = loadSources(log, begin, selection)
        load.continue(sources, begin.familiesOf(sources))
      }
      source.frames.foreach(_.read(load.load))
      if (source.frames.nonEmpty) assert(load.families == source.families.sortBy(_.id))
      load
    }
  }

  private def verify(log: StateLog, state: State): Unit = {
    assert(log.families.map(_.schema.name).toSet == state.keySet)
    assert(log.allKeys == state.values.map(_.size.toLong).sum)
    for (family <- log.families) {
      val table = family.table
      val scan = table.snapshot(Record.NoBound)
      val rows = Iterator.continually(scan.advance()).takeWhile(identity).map { _ =>
        val values = table.valuesAt(scan.address).map(Blob.valueAt(memory, _)).toVector
        Blob.keyAt(memory, scan.address) -> values
      }
      assert(rows.toMap == state(family.schema.name))
    }
  }

  private def orderOf(schema: FamilySchema): Option[KeyOrder] =
    if (isOrdered(schema.name)) Some(new FirstByteRank(memory)) else None
}

private object SourcesMachine {

  /** A store with its chain after a reference, its rows, and its families with their IDs. */
  final case class Store(
      reference: Option[Reference],
      frames: Vector[Frames.Frame],
      state: State,
      families: Seq[FamilySchema]
  )

  /** A base that takes rows of other stores: those of its partition, in the named families. */
  final case class Reference(
      sources: Seq[Store],
      named: Set[String],
      partition: Int,
      partitions: Int
  ) {
    def takes(key: Blob): Boolean = partitionOf(key, partitions) == partition

    def familiesOf(loads: Seq[SourceLoad]): Seq[FamilySchema] =
      SourceLoad.union(loads.map(_.families.filter(family => named(family.name))))
  }

  def partitionOf(key: Blob, partitions: Int): Int = Math.floorMod(key.hashCode, partitions)
}
