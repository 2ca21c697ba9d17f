package io.cleancut.engine

import io.cleancut.testkit.TestMemory
import io.cleancut.testkit.inputs._

/** The steps of [[LogMachine]], and its inputs. */
private[engine] object LogInputs {
  val Change = "change a key"
  val Get = "get a key"
  val StartScan = "start a scan"
  val Scan = "continue a scan"
  val Seal = "seal a version"
  val Abort = "abort"
  val Retry = "retry on an older version"
  val Pin = "pin a version"
  val WriteBase = "write a base"
  val Reload = "load the last version"
  val ReadBase = "read a part of a base"
  val Compact = "start a copy"
  val Follow = "continue a copy"
  val Restart = "load a base"
  val Settle = "end a copy"
  val Verify = "read all"

  val Steps: IndexedSeq[String] = IndexedSeq(
    Change,
    Get,
    StartScan,
    Scan,
    Seal,
    Abort,
    Retry,
    Pin,
    WriteBase,
    Reload,
    ReadBase,
    Compact,
    Follow,
    Restart,
    Settle,
    Verify
  )

  private val Memory = new Dimension[String]("memory", TestMemory.modes)
  private val Ordered = Dimension.flag("ordered keys")
  private val Lists = Dimension.flag("lists")
  private val Chosen = Dimension.flag("keys with equal hashes")
  private val Versions = new Dimension[String]("versions", Seq("1", "2", "more"))
  private val HasScan = Dimension.flag("open scan")
  private val Copied = Dimension.flag("copy in progress")
  private val Unread = Dimension.flag("unread base")

  val Space: InputSpace = InputSpace(
    "steps of the state log",
    StepLog.dimensions(Steps) ++
      Seq(Memory, Ordered, Lists, Chosen, Versions, HasScan, Copied, Unread),
    Seq(
      Impossible(StepLog.at(Scan), HasScan.where(!_), "an open scan is continued"),
      Impossible(StepLog.after(StartScan), HasScan.where(!_), "the scan is open"),
      Impossible(StepLog.at(Compact), Copied.where(identity), "a log has one copy"),
      Impossible(StepLog.at(Compact), StepLog.after(Follow), "a log has one copy"),
      Impossible(
        StepLog.at(Follow),
        StepLog.after(Settle, Reload, Restart),
        "the step before ends the copy"
      ),
      Impossible(StepLog.at(Follow), Copied.where(!_), "a copy in progress is continued"),
      Impossible(StepLog.after(Follow), Copied.where(!_), "the copy is in progress"),
      Impossible(
        StepLog.after(Settle, Reload, Restart),
        Copied.where(identity),
        "the step ends the copy"
      ),
      Impossible(
        StepLog.after(Reload, Restart),
        Versions.where(_ != "1"),
        "one version is loaded"
      ),
      Impossible(
        Ordered.where(identity),
        Unread.where(identity),
        "an ordered log reads its base when it is loaded"
      ),
      Impossible(
        Copied.where(identity),
        Unread.where(identity),
        "a copy begins after the base has been read"
      ),
      Impossible(
        StepLog.at(Follow),
        Unread.where(identity),
        "a copy begins after the base has been read"
      ),
      Impossible(
        StepLog.after(Follow, Compact, StartScan, WriteBase, Verify),
        Unread.where(identity),
        "the step reads the base, or follows one that does"
      )
    )
  )

  def settings(
      memory: String,
      isOrdered: Boolean,
      hasLists: Boolean,
      isChosen: Boolean
  ): Map[String, Set[String]] = Map(
    Memory.nameOf(memory),
    Ordered.nameOf(isOrdered),
    Lists.nameOf(hasLists),
    Chosen.nameOf(isChosen)
  )

  def state(
      versions: Int,
      hasScan: Boolean,
      isCopied: Boolean,
      isUnread: Boolean
  ): Map[String, Set[String]] = Map(
    Versions.nameOf(if (versions > 2) "more" else versions.toString),
    HasScan.nameOf(hasScan),
    Copied.nameOf(isCopied),
    Unread.nameOf(isUnread)
  )
}
