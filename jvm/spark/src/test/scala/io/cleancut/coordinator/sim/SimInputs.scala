package io.cleancut.coordinator.sim

import io.cleancut.testkit.inputs.{Dimension, Impossible, InputSpace}

/** The inputs of [[Simulation]], and the faults that its runs have met. */
object SimInputs {
  private val Sink: Dimension[SinkKind] = new Dimension("sink", SinkKind.all :+ SinkKind.Staging)
  private val Redeployed = Dimension.flag("another sink at each start")
  private val Format = new Dimension[Int]("checkpoint format", 1 to 2)
  private val Files = new Dimension[String]("checkpoint", Seq("object store", "file system"))
  private val Rows = new Dimension[String]("rows", Seq("distinct", "by key", "by key and position"))
  private val SplitsGroups = Dimension.flag("splits groups")
  private val MaxInFlight = new Dimension[Int]("limit of in-flight rows", SimRows.Limits)
  private val Partitions = new Dimension[Int]("partitions", 1 to 3)
  private val Stages = new Dimension[Int]("stages", 1 to 2)
  private val Captured = new Dimension[String]("captured stages", Seq("none", "some", "all"))
  private val Executors = new Dimension[Int]("executors", 1 to 3)
  private val Retained = new Dimension[Int]("retained cuts", 1 to 3)
  private val PageSize = new Dimension[Int]("page size of listings", Seq(3, 1000))
  private val KeptBytes = new Dimension[Long]("kept frames in bytes", SimPlan.Budgets)
  private val WithoutCuts = new Dimension[Long]("epochs before cuts", Seq(0L, 1L, 2L))
  private val Unsteady = Dimension.flag("other rows in each run")
  private val ManyEpochs = Dimension.flag("many epochs")
  private val End: Dimension[RunEnd] = new Dimension("end of a run", RunEnd.all, (_: RunEnd).name)
  private val WaitMs =
    new Dimension[Long]("wait for the run before in ms", World.HandoverTimes)
  private val Pipelined = Dimension.flag("epoch begun before the cut of the one before")
  private val Struck: Dimension[Fault] = new Dimension("fault", Fault.all, (_: Fault).name)

  val Space: InputSpace = InputSpace(
    "commits of cuts, simulated",
    Seq(
      Sink,
      Redeployed,
      Format,
      Files,
      Rows,
      SplitsGroups,
      MaxInFlight,
      Partitions,
      Stages,
      Captured,
      Executors,
      Retained,
      PageSize,
      KeptBytes,
      WithoutCuts,
      Unsteady,
      ManyEpochs,
      End,
      WaitMs,
      Pipelined,
      Struck
    ),
    ofSinks ++ ofRows ++ ofFaults
  )

  /** The inputs of a run, and its faults. */
  def covered(run: Outcome): Map[String, Set[String]] = {
    val plan = run.plan
    val captured = plan.stages.map(_.exists(_.isCaptured))
    Map(
      Sink.namesOf(plan.sinks),
      Redeployed.nameOf(plan.isRedeployed),
      Format.nameOf(if (plan.isFormat2) 2 else 1),
      Files.nameOf(Files.values(if (plan.isOnFiles) 1 else 0)),
      Rows.nameOf(Rows.values(if (plan.rows.isSorted) 2 else if (plan.rows.isGrouped) 1 else 0)),
      SplitsGroups.nameOf(plan.rows.splitsGroups),
      MaxInFlight.nameOf(plan.rows.maxInFlight),
      Partitions.nameOf(plan.partitions),
      Stages.nameOf(plan.stages.size),
      Captured.nameOf(
        if (captured.forall(identity)) "all" else if (captured.contains(true)) "some" else "none"
      ),
      Executors.nameOf(plan.executors),
      Retained.nameOf(plan.keep),
      PageSize.nameOf(plan.pageSize),
      KeptBytes.nameOf(plan.budgetBytes),
      WithoutCuts.nameOf(plan.levelZeroEpochs),
      Unsteady.nameOf(plan.isUnsteady),
      ManyEpochs.nameOf(plan.isLong),
      End.namesOf(run.timing.ends),
      WaitMs.namesOf(run.timing.waitsMs),
      Pipelined.namesOf(run.timing.pipelined),
      Struck.namesOf(run.faults.keySet)
    )
  }

  private def ofSinks: Seq[Impossible] = Seq(
    Impossible(
      Sink.where(sink => !SinkKind.ofFormat2.contains(sink) && sink != SinkKind.Staging),
      Format.where(_ == 2),
      "Spark requires each task of an epoch to run in checkpoint format 2"
    ),
    Impossible(
      Sink.where(!SinkKind.keeping(_)),
      Rows.where(_ != "distinct"),
      "rows stay in flight only for a sink that seals"
    ),
    Impossible(
      Sink.where(_ != SinkKind.Staging),
      Unsteady.where(identity),
      "only a sink with staged rows finishes a sealed epoch"
    ),
    Impossible(
      Redeployed.where(identity),
      Unsteady.where(identity),
      "only a sink with staged rows finishes a sealed epoch"
    ),
    Impossible(
      Captured.where(_ == "none"),
      Unsteady.where(identity),
      "rows of no stage stay in flight"
    )
  )

  private def ofFaults: Seq[Impossible] = {
    import Fault._
    val skipping = Set[Fault](SkippedSink, SkippedLeftover, PartialAction, PlanRun)
    val inFlight = Set[Fault](
      LostArrival,
      LeftInFlight,
      Replay,
      Followed,
      FollowedSeal,
      FrozenBeforeSeal,
      CutNow,
      OperationInFlight
    )
    Seq(
      Impossible(
        Format.where(_ == 2),
        Struck.where(skipping + FailedAfterRows),
        "Spark requires each task of an epoch to run in checkpoint format 2"
      ),
      Impossible(
        Unsteady.where(identity),
        Struck.where(skipping + SecondAction),
        "the sink of the run stages rows"
      ),
      Impossible(
        Rows.where(_ != "distinct"),
        Struck.where(_ == PartialAction),
        "no sink that seals runs an action on some partitions"
      ),
      Impossible(
        SplitsGroups.where(!_),
        Struck.where(_ == PartialAction),
        "no sink that seals runs an action on some partitions"
      ),
      Impossible(
        MaxInFlight.where(_ < Int.MaxValue),
        Struck.where(_ == PartialAction),
        "no sink that seals runs an action on some partitions"
      ),
      Impossible(
        Captured.where(_ == "none"),
        Struck.where(inFlight),
        "rows of no stage stay in flight"
      ),
      Impossible(
        Files.where(_ == "object store"),
        Struck.where(_ == RolledForward),
        "the commit log of an object store is a view of the cuts"
      ),
      Impossible(
        Files.where(_ == "file system"),
        Struck.where(Set[Fault](ReadAhead, SlowStart)),
        "logs are read ahead on object stores"
      ),
      Impossible(
        ManyEpochs.where(!_),
        Struck.where(_ == StalledSweep),
        "operations refer to old cuts in runs with many epochs"
      )
    )
  }

  private def ofRows: Seq[Impossible] = Seq(
    Impossible(
      Rows.where(_ == "distinct"),
      SplitsGroups.where(!_),
      "a row is a group"
    ),
    Impossible(
      Rows.where(_ == "distinct"),
      MaxInFlight.where(_ < Int.MaxValue),
      "the limit applies to runs with keys"
    ),
    Impossible(
      SplitsGroups.where(!_),
      Sink.where(!SinkKind.keeping(_)),
      "rows stay in flight only for a sink that seals"
    ),
    Impossible(
      MaxInFlight.where(_ < Int.MaxValue),
      Sink.where(!SinkKind.keeping(_)),
      "rows stay in flight only for a sink that seals"
    ),
    Impossible(
      Captured.where(_ != "all"),
      Rows.where(_ != "distinct"),
      "each stage of a run with keys is captured"
    ),
    Impossible(
      Captured.where(_ != "all"),
      SplitsGroups.where(!_),
      "each stage of a run with keys is captured"
    ),
    Impossible(
      Captured.where(_ != "all"),
      MaxInFlight.where(_ < Int.MaxValue),
      "each stage of a run with keys is captured"
    ),
    Impossible(Captured.where(_ == "some"), Stages.where(_ == 1), "a single stage is all stages")
  )
}
