"""Several queries, one consistent cut."""

import logging
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cleancut._operations.offline import Plan, clone, rollback
from cleancut._query.coordinator import Coordinator, coordinator
from cleancut.dataflow._cuts.closing import Attendant
from cleancut.dataflow._flow import Age, Flow, positive_s
from cleancut.dataflow._model.facts import place_of
from cleancut.dataflow._model.records import AnswerRecord
from cleancut.dataflow._operations.acts import FlowPlan, Restoring
from cleancut.dataflow._operations.cloning import Cloning
from cleancut.dataflow._store.places import absolute
from cleancut.errors import CleancutError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_LOG = logging.getLogger("cleancut.dataflow")
_END_S = 30.0


class Dataflow(Flow):
    """Several queries that send to each other by channels, and consistent cuts of all of them.

    Each query runs as it is, in one application or in several: only the stores join them. A cut of
    the dataflow has a cut of each query, such that none has consumed of a channel what its sender
    had not sent; what was sent and not consumed is in flight. Nothing is marked or stopped for it.
    docs/concepts/dataflow.md says why that is enough, loops included.

        flow = Dataflow("s3://bucket/flow")
        flow.add("orders", "s3://bucket/checkpoints/orders")
        flow.add("totals", "s3://bucket/checkpoints/totals")
        with flow.run(interval="60s"):
            ...
        flow.restore(flow.cuts()[-1].number).apply()
    """

    def restore(
        self,
        to: int | str | None = None,
        *,
        session: "SparkSession | None" = None,
        allow_missing_input: bool = False,
    ) -> FlowPlan:
        """Plans to have all queries go on from a cut of the dataflow.

        The queries have to be stopped. Each goes back by `cleancut.rollback`, if it is not there
        already, and each channel hides at once what its sender has gone back behind. Nothing is
        taken away, so that one can go back to another cut afterwards, a later one, too. What was in
        flight is read again by the receivers.

        Args:
            to: the number of the cut, or its name; None is the last.
            session: one that `configure` has set up; None takes the one that runs in this process.
            allow_missing_input: as for `rollback`.

        Returns:
            The plan. It names the queries that have not said that they have ended; its `apply`
            refuses then, unless it is to fence them. Killed half-way, it is planned and applied
            once more. Its `notes` have those of each query, and its `apply` checks all queries
            before it changes the first one; without a session the plan is made without these.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND; CLEANCUT_DATAFLOW_REFUSED, there is no such
                cut, or a member cannot go back to it.
        """

        def roll_back(checkpoint: str, savepoint: str) -> Plan:
            return rollback(
                checkpoint, savepoint, session=session, allow_missing_input=allow_missing_input
            )

        return Restoring(
            store=self._store,
            places=self._places,
            record=self._vector(to),
            roll_back=roll_back,
            coordinating=lambda act: self._coordinating(lambda _: act()),
            allows_missing_input=allow_missing_input,
        ).plan()

    rollback = restore

    def clone(
        self,
        to: str | os.PathLike[str],
        members: Mapping[str, str | os.PathLike[str]],
        channels: Mapping[str, str | os.PathLike[str]],
        *,
        at: int | str | None = None,
        session: "SparkSession | None" = None,
        allow_missing_input: bool = False,
    ) -> FlowPlan:
        """Plans to make another dataflow of a cut, beside this one, which may run meanwhile.

        Each query gets a checkpoint by `cleancut.clone`, under an id of its own, and each channel
        what was in flight. The queries are started with these places by whoever runs them.

        Args:
            to: the location of the new dataflow.
            members: for each member, the location of its new checkpoint.
            channels: for each channel that a member sends into, where the new one is to be.
            at: the number of the cut, or its name; None is the last.
            session: as for `restore`.
            allow_missing_input: as for `restore`.

        Returns:
            The plan; its `apply` does it. Killed half-way, it is planned and applied once more.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_REFUSED, there is no such cut, or a place is missing or
                not free.
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
        return Cloning(
            store=self._store,
            places=self._places,
            record=self._vector(at),
            into=self._places.store(absolute(to), self._machinery),
            members={name: absolute(place) for name, place in members.items()},
            channels=given,
            clone=cloned,
            allows_missing_input=allow_missing_input,
        ).plan()

    def attend(
        self, query: "StreamingQuery", name: str | None = None, *, every: Age = 1.0
    ) -> "Attending":
        """Closes the epochs of a query when a cut of the dataflow is to be made.

        It is for the driver of the query, and goes on in a thread there until it is stopped, or the
        query ends. Without it cuts have what the query has committed by itself.

        Args:
            query: as `writeStream.start()` returned it.
            name: what it is called here; None finds the member with its checkpoint.
            every: how often requests are looked for, a listing each time: seconds, a timedelta, or
                a text such as "2s".

        Returns:
            What attends; it is a context manager, which stops it.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND; CLEANCUT_DATAFLOW_REFUSED, it is no member;
                CLEANCUT_COORDINATOR_MISSING, its epochs are not committed by cuts.
            ValueError: `every` is not above 0.
        """
        every_s = positive_s("every", every)
        self._store.flow_id()
        own = coordinator(query)
        members = self._store.members()
        if name is None:
            place = place_of(own.location)
            found = [of.name for of in members.values() if place_of(of.checkpoint) == place]
            name = found[0] if found else None
        if name is None or name not in members:
            reason = f"no member has the checkpoint {own.location}" if name is None else name
            raise self._store.refused("attend", f"{reason}: add it first")
        attendant = Attendant(self._store, name, lambda: _closed(own))
        attending = Attending(attendant, lambda: bool(query.isActive), every_s)
        attending.begin()
        return attending


def _closed(own: Coordinator) -> AnswerRecord:
    """Closes the epoch that runs; tells after whose cut that has been done."""
    told = own._told()
    under_way, committed = told.get("epoch"), told.get("committed")
    if not under_way:
        return AnswerRecord(-1 if committed is None else committed, is_closing=False)
    return AnswerRecord(int(under_way["epoch"]), is_closing=own.cut_now())


class Attending:
    """Attends to requests of a dataflow, for one query, in a thread of its driver."""

    def __init__(self, attendant: Attendant, is_active: Any, every_s: float) -> None:
        self._attendant = attendant
        self._is_active = is_active
        self._every_s = every_s
        self._stopping = threading.Event()
        self._answered = 0
        self._thread = threading.Thread(target=self._run, name="cleancut-attend", daemon=True)

    def __repr__(self) -> str:
        return f"Attending({self._attendant.member!r}, answered={self._answered})"

    @property
    def answered(self) -> int:
        """How many requests it has answered."""
        return self._answered

    def begin(self) -> None:
        """Says that it attends, and starts the thread."""
        self._attendant.begin()
        self._thread.start()

    def stop(self) -> None:
        """Ends it."""
        self._stopping.set()
        self._thread.join(_END_S)

    def __enter__(self) -> "Attending":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._stopping.wait(self._every_s) and self._is_active():
            try:
                self._answered += self._attendant.look()
            except (CleancutError, OSError) as error:
                # Who asks goes on without an answer.
                _LOG.warning("a request of the dataflow could not be answered: %s", error)
        try:
            self._attendant.end()
        except (CleancutError, OSError) as error:
            _LOG.warning("it could not be said that nobody attends any more: %s", error)
