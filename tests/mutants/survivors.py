"""Planted defects that no test found at first, and the changes that each of them caused."""

from collections.abc import Sequence
from typing import NamedTuple


class Survivor(NamedTuple):
    """A defect that survived.

    Attributes:
        area: the part of the system.
        defect: what was wrong.
        change: the test that finds it now, or the code that was deleted because it had no effect.
    """

    area: str
    defect: str
    change: str


SURVIVORS: Sequence[Survivor] = (
    Survivor(
        "format of cuts",
        "a body of another size is accepted",
        "vector `stored-length-too-short`, for Scala and Python",
    ),
    Survivor(
        "format of cuts",
        "a frame may be in a segment that is not named",
        "vector `channel-segment-negative`",
    ),
    Survivor(
        "format of cuts",
        "references may have any version",
        "vectors `referred-out-of-order`, `referred-twice`, `referred-version-0` and "
        "`referred-of-a-later-version`",
    ),
    Survivor(
        "format of cuts",
        "two snapshots of a version are accepted",
        "the check is deleted: the order of versions refuses them too",
    ),
    Survivor(
        "format of frames",
        "a block that the index does not describe is accepted",
        "`test_a_corrupted_index_is_found_when_a_block_is_read_by_it`",
    ),
    Survivor(
        "format of frames",
        "a snapshot of another length is read by its index",
        "`test_blocks_that_are_read_by_the_index_are_those_of_the_frame`",
    ),
    Survivor(
        "reader of state",
        "values of a list are in reverse order",
        "`test_a_list_that_begins_in_a_changelog_keeps_its_order`",
    ),
    Survivor(
        "reader of state",
        "a merge into a family without lists is accepted",
        "`test_a_merge_into_a_family_without_lists_is_corrupted`",
    ),
    Survivor(
        "reader of cuts",
        "frames of any version count",
        "the check is deleted, in Scala too: the order of versions refuses such chains",
    ),
    Survivor(
        "reader of cuts",
        "a changelog applies to any version",
        "vector `delta-of-another-attempt`",
    ),
    Survivor(
        "expiry",
        "a run that begins after the plan is not noticed",
        "`test_a_run_that_starts_at_any_request_loses_nothing`: nothing is deleted either",
    ),
    Survivor(
        "offline operations",
        "a rollback takes an epoch and undo together",
        "`test_a_rollback_takes_either_a_state_or_undo`",
    ),
    Survivor(
        "offline operations",
        "a clone keeps the ID of its query",
        "`test_a_clone_is_of_another_query_unless_it_is_requested`",
    ),
    Survivor(
        "offline operations",
        "an operation runs although the query has committed since its plan",
        "`OperationEffectsSuite`: a plan is outdated after another epoch, and after its savepoint "
        "has another one; now for a rollback too",
    ),
    Survivor(
        "offline operations",
        "a snapshot is moved before a changelog of its directory",
        "the order is deleted: a snapshot names files in other directories, which are moved before",
    ),
    Survivor(
        "savepoints",
        "a savepoint is reported although another one was stored",
        "`test_a_savepoint_that_is_stored_with_other_bytes_is_corrupted`",
    ),
    Survivor(
        "savepoints",
        "a savepoint has the name of an epoch",
        "`test_an_invalid_savepoint_is_refused_without_traces`",
    ),
    Survivor(
        "savepoints",
        "a corrupted cut prevents the restore of metadata",
        "`test_metadata_is_restored_from_the_last_intact_cut`",
    ),
    Survivor(
        "savepoints",
        "a file that is no savepoint is dropped",
        "the check is deleted: the list of savepoints has no such file",
    ),
    Survivor(
        "objects in Scala",
        "the sizes of a block have no limit",
        "vector `block-stored-length-of-2-gb`",
    ),
    Survivor(
        "objects in Scala",
        "the index of another frame is accepted",
        "vector `index-without-a-family`",
    ),
    Survivor(
        "replication",
        "cuts that were deleted meanwhile are copied",
        "the check is deleted: a cut is deleted before its objects",
    ),
    Survivor(
        "replication",
        "a replica with another cut of an epoch is overwritten",
        "`test_a_replica_with_another_cut_of_its_last_epoch_is_refused`",
    ),
    Survivor(
        "replication",
        "entries of later epochs are copied",
        "`test_entries_of_an_epoch_that_is_committed_meanwhile_are_not_copied`",
    ),
    Survivor(
        "in-flight rows of Python functions",
        "progress is reported after the decision",
        "the condition is deleted: the task reads the progress only until it decides",
    ),
    Survivor(
        "dataflows",
        "the last of several operations has the source of its record",
        "`test_an_operation_of_several_records_has_the_earliest_source`",
    ),
    Survivor(
        "dataflows",
        "operations after a cut belong to its lineage",
        "`test_the_lineage_of_a_cut_has_no_later_operations`",
    ),
    Survivor(
        "dataflows",
        "channels that change meanwhile are ignored",
        "`test_an_epoch_that_is_hidden_during_its_savepoint_is_in_no_vector`",
    ),
    Survivor(
        "dataflows",
        "a coordinator that was followed expires vectors",
        "`test_a_coordinator_that_was_followed_expires_nothing`",
    ),
    Survivor(
        "dataflows",
        "savepoints of another dataflow are dropped",
        "`test_savepoints_of_another_dataflow_remain`",
    ),
    Survivor(
        "state engine",
        "records after the limit of an ordered scan are visible",
        "the condition is deleted: their links lead to no record before the limit",
    ),
    Survivor(
        "state engine",
        "a version is found by its number alone",
        "`StateLogSuite`: a version is found by its ID, if one is requested",
    ),
    Survivor(
        "state engine",
        "a dropped family keeps its rows",
        "`StateLogSuite`: rows of a dropped family are garbage, until the drop is undone",
    ),
    Survivor(
        "state engine",
        "a changelog keeps the families of its first block",
        "`DeltaWriterSuite`: a delta has a family that is created after its first block",
    ),
    Survivor(
        "commit protocol",
        "D1: an attempt decides before all its frames are kept",
        "`EpochChannelsSuite`: an attempt does not decide before there are frames of all "
        "its stores",
    ),
    Survivor(
        "commit protocol",
        "D2: an attempt that repeats a decision does not report",
        "`EpochChannelsSuite`: an attempt that repeats a decision reports, although it "
        "may leave no other rows",
    ),
    Survivor(
        "commit protocol",
        "W1: a task opens only the stores that it names",
        "`EpochChannelsSuite`: a task opens all stores that the last cut has of it, "
        "unless an operation replaces them",
    ),
    Survivor(
        "commit protocol",
        "pages of another window are taken over",
        "`CutWindowSuite`: pages of another window are ignored",
    ),
    Survivor(
        "commit protocol",
        "pages of before an operation are named",
        "`CutWindowSuite`: pages that were written before an operation are in none of its cuts",
    ),
    Survivor(
        "commit protocol",
        "seals are deleted before their epochs have cuts",
        "`SealedEpochSuite`: a garbage collection keeps the seal of an epoch until the epoch has "
        "a cut",
    ),
    Survivor(
        "commit protocol",
        "O10: a cut of other input is accepted",
        "`SuccessorSuite`: a successor with other input does not adopt the cut of its predecessor",
    ),
    Survivor(
        "commit protocol",
        "C1: frames that Spark did not count complete an epoch",
        "`SkippedEpochSuite`: if Spark counts versions, frames of an earlier run do not complete "
        "an epoch",
    ),
    Survivor(
        "commit protocol",
        "frames of an operation are read before they are durable",
        "`ReplacedEpochSuite`: frames that the driver holds are durable after settle",
    ),
    Survivor(
        "handovers",
        "T3: a run does not wait until its time is over",
        "`HandoverSuite`: a successor waits until it finds the end of the run before",
    ),
    Survivor(
        "handovers",
        "a waiting run is forgotten when its location is parked again",
        "`ParkedRunsSuite`: a run waits until its location is released, and other locations are "
        "not parked",
    ),
    Survivor(
        "capture of in-flight rows",
        "a row that the function has not received is forgotten",
        "`WorkerChannelSuite`: rows that the function has received are forgotten, and no others",
    ),
    Survivor(
        "sinks",
        "a run at a followed checkpoint publishes",
        "`test_a_run_that_a_continuing_checkpoint_has_followed_publishes_nothing`",
    ),
    Survivor(
        "sinks",
        "epochs that are lost while the query runs are not noticed",
        "`test_epochs_that_are_lost_while_a_query_runs_stop_it`",
    ),
    Survivor(
        "sinks",
        "epochs that are lost before a run are not noticed",
        "`test_a_run_is_refused_if_its_target_lacks_published_epochs`",
    ),
    Survivor("sinks", "files of hidden epochs are deleted", "`test_files_of_hidden_epochs_remain`"),
    Survivor("sinks", "epochs after the limit expire", "`test_no_epoch_after_the_limit_expires`"),
    Survivor(
        "rows of frames",
        "totals of families are not compared",
        "`StateLogSuite`: a changelog with other totals than its rows is corrupted",
    ),
    Survivor(
        "rows of frames",
        "a block may have records of another family",
        "`UnreadBaseSuite`: a base whose index states another family of a block is corrupted",
    ),
)
