package io.cleancut.engine

import scala.util.Random

import org.scalatest.{Assertion, Assertions}
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.StateVersion
import io.cleancut.format.frame.FamilySchema
import io.cleancut.testkit.{Blob, Frames, Seeded, TestMemory}
import io.cleancut.testkit.inputs.{Dimension, Impossible, InputSpace, StepLog}
import io.cleancut.testkit.Blob.Blob

/**
 * Several column families in one log, with one or several values per key, that are created and
 * dropped.
 */
class FamiliesSuite extends AnyFunSuite with Seeded {

  for (mode <- TestMemory.modes)
    test(s"families have the rows of a map for each of them, in $mode memory") {
      var attached = 0
      forSeeds(40) { random =>
        TestMemory.using(mode) { owned =>
          val machine = new FamiliesMachine(random, owned)
          machine.run(400)
          attached += machine.attached
        }
      }
      assert(attached > 0 || sys.env.contains("CLEANCUT_SEED"))
    }

  test("a list of a hundred thousand values is read, compacted and loaded in order") {
    TestMemory.using("checked") { owned =>
      val machine = new FamiliesMachine(new Random(1), owned)
      machine.growList(100000)
      machine.settle()
      machine.free()
    }
  }
}

/** The log, and the values of each key for each family by name. */
final private class FamiliesMachine(random: Random, owned: TestMemory.Owned) extends Assertions {
  import FamiliesMachine._
  import owned.{account, memory}

  private val keys = Vector.tabulate(24)(i => Blob.random(random, 1 + i))
  // Some runs have each step equally often, so that each follows each.
  private val isEven = random.nextInt(4) == 0
  private var log = newLog()
  private var state: State = Map.empty
  private var served = Vector((log.latest, state))
  private var chain = Vector.empty[Frames.Frame]
  private var chains = Map.empty[Long, Vector[Frames.Frame]]
  private var attempts = 0

  /** Number of logs whose base was not read yet. */
  var attached = 0

  private var delta: Delta = begin()
  private val inputs = new StepLog(Space, Map(Memory.nameOf(owned.name)))

  def run(steps: Int): Unit = {
    for (_ <- 0 until steps) step()
    settle()
    free()
  }

  def growList(count: Int): Unit = {
    declare(FamilyNames(1))
    val family = log.family(FamilyNames(1)).get
    val values = Vector.tabulate(count)(i => Blob.of(i.toByte, (i >> 8).toByte, (i >> 16).toByte))
    values.foreach { value =>
      family.table.merge(Blob.bytes(keys(3)), Blob.bytes(value))
      delta.writer.cursor(family).keepUp()
    }
    state = state.updated(FamilyNames(1), Map(keys(3) -> values))
    seal(keep = 1)
    reload()
    verify()
  }

  private def step(): Unit = {
    val step = if (isEven) Steps(random.nextInt(Steps.size)) else drawUsualStep()
    val isUnread = log.families.exists(_.table.unreadBlocks > 0)
    inputs.add(step, Map(Families.namesOf(state.keySet), Unread.nameOf(isUnread)))
    perform(step)
  }

  private def drawUsualStep(): String = random.nextInt(100) match {
    case n if n < 70 => Change
    case n if n < 76 => Declare
    case n if n < 78 => Drop
    case n if n < 86 => Seal
    case n if n < 90 => Rewind
    case n if n < 92 => Reload
    case n if n < 94 => Compact
    case n if n < 96 => ReplaceByBase
    case n if n < 97 => ReadSome
    case _           => Verify
  }

  private def perform(step: String): Unit = step match {
    case Change        => change()
    case Declare       => declare(anyName())
    case Drop          => drop(anyName())
    case Seal          => seal(1 + random.nextInt(3))
    case Rewind        => rewind(random.nextInt(served.size))
    case Reload        => reload()
    case Compact       => compact()
    case ReplaceByBase => replaceByBase()
    case ReadSome      => readSome()
    case _             => verify()
  }

  private def readSome(): Unit =
    if (random.nextBoolean()) verifyKeys()
    else {
      log.readNext(random.nextInt(3))
      ()
    }

  private def anyName(): String = FamilyNames(random.nextInt(FamilyNames.size))

  private def declare(name: String): Unit = if (!state.contains(name)) {
    log.declare(schemaOf(name))
    state = state.updated(name, Map.empty)
  }

  // Spark's default family is never dropped.
  private def drop(name: String): Unit = if (name != FamilyNames.head) {
    assert(log.drop(name) == state.contains(name))
    state = state.removed(name)
  }

  private def change(): Unit = log.families.lift(random.nextInt(FamilyNames.size)).foreach { f =>
    val rows = state(f.schema.name)
    val key = keys(random.nextInt(keys.size))
    val value = Blob.random(random, if (random.nextInt(40) == 0) 60000 else random.nextInt(20))
    val changed = random.nextInt(3) match {
      case 0 =>
        assert(f.table.remove(Blob.bytes(key)) == rows.contains(key))
        rows.removed(key)
      case 1 if f.schema.isMultiValued =>
        f.table.merge(Blob.bytes(key), Blob.bytes(value))
        rows.updated(key, rows.getOrElse(key, Vector.empty) :+ value)
      case _ =>
        f.table.put(Blob.bytes(key), Blob.bytes(value))
        rows.updated(key, Vector(value))
    }
    state = state.updated(f.schema.name, changed)
    delta.writer.cursor(f).keepUp()
  }

  private def seal(keep: Int): Unit = {
    delta.writer.finish()
    chain = chain :+ delta.frame.done()
    log.seal(delta.target, keep)
    chains = chains.updated(delta.target.number, chain)
    served = (served :+ (log.latest -> state)).takeRight(keep)
    delta = begin()
  }

  private def rewind(to: Int): Unit = {
    val (version, rows) = served(to)
    assert(log.tryRewindTo(log.find(version.number, version.id).get))
    served = served.take(to + 1)
    state = rows
    chain = chains.getOrElse(version.number, Vector.empty)
    delta = begin()
  }

  private def reload(): Unit = {
    rewind(served.size - 1)
    val (version, rows) = served.last
    version.id.foreach { id =>
      val loaded = newLog()
      val base = chain.headOption.filter(_.identity.parent.isEmpty && random.nextBoolean())
      val opened = base.flatMap(_.open())
      opened.foreach(loaded.attach(_, SparseReads(random.nextInt(9), random.nextInt(9).toDouble)))
      if (opened.isDefined) attached += 1
      (if (opened.isDefined) chain.tail else chain)
        .foreach(_.read((reader, scratch) => loaded.load(reader, scratch)))
      loaded.seal(StateVersion(version.number, id), keep = 1)
      log.release()
      log = loaded
      served = Vector((log.latest, rows))
      delta = begin()
      assert(log.allKeys == state.values.map(_.size.toLong).sum)
      if (random.nextBoolean()) verify()
    }
  }

  private def compact(): Unit = {
    log.complete()
    val compaction = new Compaction(log, orderOf, memory, account, stepRecords = 3)
    def followed(body: => Unit): Unit = {
      body
      log.publish()
      for (_ <- 0 until random.nextInt(4)) compaction.follow()
    }
    log.followWith(() => ())
    assert(compaction.copyOldest { () =>
      if (random.nextBoolean()) change()
      true
    })
    followed(rewind(served.size - 1))
    while (random.nextBoolean()) {
      for (_ <- 0 until random.nextInt(5)) followed(change())
      if (random.nextBoolean()) followed(seal(2)) else followed(rewind(served.size - 1))
    }
    rewind(served.size - 1)
    val fresh = compaction.catchUp()
    log.release()
    log = fresh
    served = log.versions.zip(served.map(_._2).takeRight(log.versions.size))
    state = served.last._2
    delta = begin()
    verify()
  }

  private def replaceByBase(): Unit = {
    rewind(served.size - 1)
    log.complete()
    val (version, _) = served.last
    version.id.foreach { id =>
      val target = StateVersion(version.number, id)
      val identity = Frames
        .base(target, version.allKeys)
        .copy(
          families = version.schemas,
          familyKeys = version.parts.map(p => p.family.schema.id -> p.mark.keys).toMap
        )
      chain = Vector(Frames.write(identity)(log.writeBase(log.latest, _, 1 << random.nextInt(10))))
      chains = chains.updated(version.number, chain)
      reload()
    }
  }

  def settle(): Unit = {
    verify()
    seal(2)
    compact()
    reload()
  }

  def free(): Unit = log.release()

  private def verify(): Unit = {
    verifyState(state, name => log.family(name).map(_.table -> Record.NoBound))
    assert(log.allKeys == state.values.map(_.size.toLong).sum)
    assert(log.deadBytes >= 0)
    served.foreach { case (version, rows) =>
      val stored = log.find(version.number, version.id).get
      verifyState(rows, name => stored.part(name).map(p => p.family.table -> p.mark.end))
    }
  }

  private def verifyState(expected: State, open: String => Option[(Table, Int)]): Unit =
    for (name <- FamilyNames) {
      val opened = open(name)
      assert(opened.isDefined == expected.contains(name))
      opened.foreach { case (table, bound) => verifyFamily(name, table, bound, expected(name)) }
    }

  /** Reads some keys of each family, with which a log that is not complete stays incomplete. */
  private def verifyKeys(): Unit = for (family <- log.families; _ <- 0 until 4)
    verifyKey(keys(random.nextInt(keys.size)), family.table, Record.NoBound)(
      state(family.schema.name)
    )

  private def verifyKey(key: Blob, table: Table, bound: Int)(rows: Rows): Unit = {
    val at = table.find(Blob.bytes(key), bound)
    val values = if (at == 0L) None else Some(valuesAt(table, at))
    assert(values == rows.get(key))
    ()
  }

  private def verifyFamily(name: String, table: Table, bound: Int, rows: Rows): Assertion = {
    for (key <- keys) verifyKey(key, table, bound)(rows)
    assert(rowsOf(table, table.snapshot(bound)).toMap == rows)
    if (isOrdered(name)) {
      val inOrder = rowsOf(table, table.scan(new Place(0L, 0L), null, bound)).map(_._1)
      assert(
        inOrder == rows.keys.toSeq.sortBy(key => (FirstByteRank.of(key) + Long.MinValue)) ||
          inOrder.map(FirstByteRank.of(_) + Long.MinValue).sliding(2).forall(p => p == p.sorted)
      )
      assert(inOrder.toSet == rows.keySet)
    } else succeed
  }

  private def rowsOf(table: Table, scan: RecordScan): Seq[(Blob, Vector[Blob])] =
    Iterator
      .continually(scan.advance())
      .takeWhile(identity)
      .map(_ => Blob.keyAt(memory, scan.address) -> valuesAt(table, scan.address))
      .toVector

  private def valuesAt(table: Table, newest: Long): Vector[Blob] =
    table.valuesAt(newest).map(Blob.valueAt(memory, _)).toVector

  private def newLog() = new StateLog(Frames.Store, orderOf, memory, account)

  private def orderOf(schema: FamilySchema): Option[KeyOrder] =
    if (isOrdered(schema.name)) Some(new FirstByteRank(memory)) else None

  private def begin(): Delta = {
    attempts += 1
    declare(FamilyNames.head)
    new Delta(log, Frames.version(log.latest.number + 1, attempts), attempts % 2 == 0)
  }
}

private[engine] object FamiliesMachine {
  type Rows = Map[Blob, Vector[Blob]]
  type State = Map[String, Rows]

  val Change = "change a key"
  val Declare = "create a family"
  val Drop = "drop a family"
  val Seal = "seal a version"
  val Rewind = "rewind"
  val Reload = "load the last version"
  val Compact = "copy the log"
  val ReplaceByBase = "load a base"
  val ReadSome = "read some keys or blocks"
  val Verify = "read all"

  val FamilyNames = Vector("plain", "lists", "ordered", "ordered-lists", "$internal")

  val Steps: IndexedSeq[String] = IndexedSeq(
    Change,
    Declare,
    Drop,
    Seal,
    Rewind,
    Reload,
    Compact,
    ReplaceByBase,
    ReadSome,
    Verify
  )

  val Memory = new Dimension[String]("memory", TestMemory.modes)
  val Families = new Dimension[String]("families", FamilyNames)
  val Unread: Dimension[Boolean] = Dimension.flag("unread base")
  val Space: InputSpace = InputSpace(
    "steps of column families",
    StepLog.dimensions(Steps) ++ Seq(Memory, Families, Unread),
    Seq(
      Impossible(
        StepLog.after(Compact, Verify),
        Unread.where(identity),
        "the step reads the base"
      )
    )
  )

  def isOrdered(name: String): Boolean = name.startsWith("ordered")

  def schemaOf(name: String): FamilySchema =
    FamilySchema(0, name, "{}", "{}", "{}", name.endsWith("lists"), name.startsWith("$"))

  /** The delta of an epoch; if families are created or dropped, the last frame counts. */
  final class Delta(log: StateLog, val target: StateVersion, keepsReplaced: Boolean) {
    private val parent = log.latest.id.map(StateVersion(log.latest.number, _))
    var frame: Frames.Open = _
    val writer: DeltaWriter = log.deltaTo(begin(_), keepsReplaced)

    private def begin(families: Seq[FamilySchema]) = {
      frame = new Frames.Open(Frames.delta(target, parent).copy(families = families))
      frame.writer
    }
  }
}
