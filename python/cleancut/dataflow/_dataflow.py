"""Dataflows: several queries with consistent cuts of all of them."""

import logging
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cleancut._operations.offline import Plan, clone, rollback
from cleancut._query.coordinator import Coordinator, coordinator
from cleancut.dataflow._cuts.close_requests import RequestResponder
from cleancut.dataflow._flow import Age, Flow, positive_s
from cleancut.dataflow._model.facts import place_of
from cleancut.dataflow._model.records import AnswerRecord
from cleancut.dataflow._operations.clone import DataflowClone
from cleancut.dataflow._operations.rollback import DataflowPlan, DataflowRollback
from cleancut.dataflow._store.places import absolute
from cleancut.errors import CleancutError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_LOG = logging.getLogger("cleancut.dataflow")
_END_S = 30.0


class Dataflow(Flow):
    """Several queries connected by channels, and consistent cuts of all of them.

    The queries run in one application or in several. A cut of the dataflow has a cut of each query
    such that no query has consumed from a channel an epoch that its sender's cut does not include;
    epochs that were sent and not consumed are in flight. It needs no markers and stops no query.
    docs/concepts/dataflow.md explains why, for loops too.

        flow = Dataflow("s3://bucket/flow")
        flow.add("orders", "s3://bucket/checkpoints/orders")
        flow.add("totals", "s3://bucket/checkpoints/totals")
        with flow.run(interval="60s"):
            ...
        flow.rollback(flow.cuts()[-1].number).apply()
    """

    def rollback(
        self,
        to: int | str | None = None,
        *,
        session: "SparkSession | None" = None,
        allow_missing_input: bool = False,
    ) -> DataflowPlan:
        """Plans to roll all queries back to a cut of the dataflow.

        The queries must be stopped. Each is rolled back by `cleancut.rollback`, unless it has that
        state already, and each channel hides the later epochs of its sender. Nothing is deleted, so
        a roll back to any other cut remains possible, a later one included. The receivers read
        in-flight epochs again.

        Args:
            to: the number of a cut, or the name of a savepoint; None is the last.
            session: a session that `configure` has set up; None is the active one of this process.
            allow_missing_input: as for `cleancut.rollback`.

        Returns:
            The plan. It lists the members that have not recorded their end; its `apply` refuses
            then, unless it fences them, and checks all members before it changes the first one. Its
            `notes` have those of each member, if there is a session. After a kill, plan and apply
            it again.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND; CLEANCUT_DATAFLOW_REFUSED, the cut does not
                exist, or a member cannot be rolled back to it.
        """

        def roll_back(checkpoint: str, savepoint: str) -> Plan:
            return rollback(
                checkpoint, savepoint, session=session, allow_missing_input=allow_missing_input
            )

        return DataflowRollback(
            store=self._store,
            places=self._places,
            record=self._vector(to),
            roll_back=roll_back,
            coordinating=lambda operation: self._coordinating(lambda _: operation()),
            allows_missing_input=allow_missing_input,
        ).plan()

    def clone(
        self,
        target: str | os.PathLike[str],
        members: Mapping[str, str | os.PathLike[str]],
        channels: Mapping[str, str | os.PathLike[str]],
        *,
        at: int | str | None = None,
        session: "SparkSession | None" = None,
        allow_missing_input: bool = False,
    ) -> DataflowPlan:
        """Plans to create another dataflow from a cut of this one, which may run meanwhile.

        Each query gets a checkpoint by `cleancut.clone`, with an id of its own, and each channel
        the in-flight epochs. Start the queries with these locations.

        Args:
            target: location of the new dataflow.
            members: location of the new checkpoint of each member.
            channels: location of the new channel, for each channel that a member writes.
            at: the number of a cut, or the name of a savepoint; None is the last.
            session: as for `rollback`.
            allow_missing_input: as for `rollback`.

        Returns:
            The plan. Nothing has changed until its `apply`. After a kill, plan and apply it again.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_REFUSED, the cut does not exist, or a location is
                missing or not empty.
        """

        def cloned(checkpoint: str, into: str, savepoint: str) -> Plan:
            return clone(
                checkpoint,
                into,
                savepoint,
                session=session,
                allow_missing_input=allow_missing_input,
            )

        given = {place_of(absolute(old)): absolute(new) for old, new in channels.items()}
        return DataflowClone(
            store=self._store,
            places=self._places,
            record=self._vector(at),
            into=self._places.store(absolute(target), self._machinery),
            members={name: absolute(place) for name, place in members.items()},
            channels=given,
            clone=cloned,
            allows_missing_input=allow_missing_input,
        ).plan()

    def participate(
        self, query: "StreamingQuery", name: str | None = None, *, every: Age = 1.0
    ) -> "Participant":
        """Closes the epoch of a query whenever a cut of the dataflow is made.

        It runs in a thread of the query's driver until it is stopped, or the query ends. Without
        it, cuts of the dataflow have the last epoch that the query has committed.

        Args:
            query: as `writeStream.start()` returned it.
            name: name of the member; None finds the member with its checkpoint.
            every: time between two listings for requests: seconds, a timedelta, or a text such as
                "2s".

        Returns:
            The participant, a context manager that stops it.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND; CLEANCUT_DATAFLOW_REFUSED, the query is not a
                member; CLEANCUT_COORDINATOR_MISSING, it has no cuts.
            ValueError: `every` is not above 0.
        """
        every_s = positive_s("every", every)
        self._store.flow_id()
        query_coordinator = coordinator(query)
        members = self._store.members()
        if name is None:
            place = place_of(query_coordinator.location)
            names = [
                member.name for member in members.values() if place_of(member.checkpoint) == place
            ]
            name = names[0] if names else None
        if name is None or name not in members:
            reason = (
                f"no member has the checkpoint {query_coordinator.location}"
                if name is None
                else name
            )
            raise self._store.refused("participate", f"{reason}: add it first")
        attendant = RequestResponder(self._store, name, lambda: _closed(query_coordinator))
        participant = Participant(attendant, lambda: bool(query.isActive), every_s)
        participant.begin()
        return participant


def _closed(query_coordinator: Coordinator) -> AnswerRecord:
    """Closes the current epoch; returns the epoch after whose cut that is done."""
    status = query_coordinator._driver_status()
    under_way, committed = status.get("epoch"), status.get("committed")
    if not under_way:
        return AnswerRecord(-1 if committed is None else committed, is_closing=False)
    return AnswerRecord(int(under_way["epoch"]), is_closing=query_coordinator.cut_now())


class Participant:
    """Closes epochs of one query for cuts of a dataflow, in a thread of its driver."""

    def __init__(self, attendant: RequestResponder, is_active: Any, every_s: float) -> None:
        self._attendant = attendant
        self._is_active = is_active
        self._every_s = every_s
        self._stopping = threading.Event()
        self._answered = 0
        self._thread = threading.Thread(target=self._run, name="cleancut-attend", daemon=True)

    def __repr__(self) -> str:
        return f"Participant({self._attendant.member!r}, answered={self._answered})"

    @property
    def answered(self) -> int:
        """Number of requests that it has answered."""
        return self._answered

    def begin(self) -> None:
        """Registers the participant and starts the thread."""
        self._attendant.begin()
        self._thread.start()

    def stop(self) -> None:
        """Stops it."""
        self._stopping.set()
        self._thread.join(_END_S)

    def __enter__(self) -> "Participant":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._stopping.wait(self._every_s) and self._is_active():
            try:
                self._answered += self._attendant.scan()
            except (CleancutError, OSError) as error:
                # The coordinator continues without an answer.
                _LOG.warning("a request of the dataflow could not be answered: %s", error)
        try:
            self._attendant.end()
        except (CleancutError, OSError) as error:
            _LOG.warning("the end of the participant could not be recorded: %s", error)
