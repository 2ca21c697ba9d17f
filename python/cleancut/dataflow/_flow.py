"""A dataflow: its members, its cuts, and the coordinator that makes them, without Spark."""

import os
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar, Unpack

from cleancut._display.info_list import InfoList
from cleancut._format.ages import age_ms, age_of, moment
from cleancut._storage.access import S3Access, S3Options
from cleancut.dataflow._cuts.channels import in_flight_epochs
from cleancut.dataflow._cuts.coordinator import Coordinator
from cleancut.dataflow._cuts.decision import decide
from cleancut.dataflow._cuts.expiry import DataflowExpiry, plan_expiry
from cleancut.dataflow._cuts.run import DataflowRun, Pacing
from cleancut.dataflow._cuts.verification import DataflowReport, restore_test_vector, verify_vector
from cleancut.dataflow._model import names
from cleancut.dataflow._model.infos import (
    DataflowCut,
    DataflowEdge,
    DataflowInFlight,
    DataflowMember,
    DataflowStatus,
    MemberAge,
    ages,
    begun,
    flow_cut,
)
from cleancut.dataflow._model.records import MemberRecord, VectorRecord, decoded
from cleancut.dataflow._page import page
from cleancut.dataflow._store.log import Pins
from cleancut.dataflow._store.machinery import Machinery
from cleancut.dataflow._store.members import MemberView, scan_member
from cleancut.dataflow._store.places import Places, absolute

Done = TypeVar("Done")
Age = timedelta | float | str


class Flow:
    """The part of `Dataflow` that needs no Spark."""

    def __init__(
        self,
        location: str | os.PathLike[str],
        **access: Unpack[S3Options],
    ) -> None:
        """Opens a dataflow; nothing is read yet.

        Args:
            location: where the dataflow stores its cuts: a local path, `s3://bucket/prefix`, or an
                `hdfs:` URI, used by nothing else.
            access: how to reach buckets, of the dataflow, its checkpoints and its channels:
                `S3Options`.

        Raises:
            RequestError: CLEANCUT_OBJECT_LOCATION_INVALID, CLEANCUT_DEPENDENCY_MISSING.
        """
        self._location = absolute(location)
        self._places = Places(S3Access(access))
        self._machinery = Machinery()
        self._store = self._places.store(self._location, self._machinery)
        self._runs: DataflowRun | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._location!r})"

    @property
    def location(self) -> str:
        """The location of its cuts; a path is absolute."""
        return self._location

    # Members

    def add(self, name: str, checkpoint_location: str | os.PathLike[str]) -> DataflowMember:
        """Adds a query as a member; it need not have started. Repeated, it changes nothing.

        Args:
            name: 1 to 64 letters, digits, dashes and underscores.
            checkpoint_location: the query's `checkpointLocation`. It must have cuts.

        Returns:
            The member, as it is now.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_REFUSED, the name is invalid, another query has it, or
                the query is a member under another name.
        """
        if not names.is_name(name):
            raise self._store.refused("add", f"{name!r} is no name of 1 to 64 letters, digits, - _")
        checkpoint = absolute(checkpoint_location)
        self._store.flow_id(create=True)
        for other in self._store.members().values():
            if (other.name == name) != (other.checkpoint == checkpoint):
                reason = f"{other.name} is the query with the checkpoint {other.checkpoint}"
                raise self._store.refused("add", reason)
            if other.name == name:
                return self._member(other)
        record = MemberRecord(name, checkpoint, self._machinery.now_ms())
        if not self._store.create(names.member_name(name), record.encode()):
            member = self._store.members().get(name, record)
            if member.checkpoint != checkpoint:
                reason = f"{name} is the query with the checkpoint {member.checkpoint}"
                raise self._store.refused("add", reason)
        return self._member(record)

    def remove(self, name: str) -> bool:
        """Removes a member. Existing cuts of the dataflow keep it.

        Returns:
            Whether the member existed.
        """
        if name not in self._store.members():
            return False
        self._store.objects.delete(names.member_name(name))
        return True

    def members(self) -> InfoList[DataflowMember]:
        """The members, ordered by name; a listing and a read for each.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND.
            CorruptedError: CLEANCUT_DATAFLOW_CORRUPTED.
        """
        self._store.flow_id()
        return InfoList(map(self._member, self._store.members().values()))

    def _member(self, record: MemberRecord) -> DataflowMember:
        return _member_info(scan_member(record, self._places.root, self._machinery, cuts=1))

    def edges(self) -> InfoList[DataflowEdge]:
        """The channels between members, at the members' last cuts.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND.
        """
        return _edges_now(self._scanned())

    def move_channel(self, channel: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
        """Records that a channel has moved since the cuts of its readers were written.

        Args:
            channel: its location in these cuts.
            target: its location now.
        """
        self._store.flow_id(create=True)
        self._store.move(absolute(channel), absolute(target))

    # Cuts

    def cuts(self) -> InfoList[DataflowCut]:
        """The complete cuts of the dataflow, ordered by number.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND.
            CorruptedError: CLEANCUT_DATAFLOW_CORRUPTED.
        """
        saved = self._store.savepoints()
        return InfoList(flow_cut(record, saved) for record in self._counted())

    def get_cut(self, at: int | str | None = None) -> DataflowCut:
        """One cut of the dataflow.

        Args:
            at: the number of a cut, or the name of a savepoint; None is the last.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_REFUSED, there is no such cut.
        """
        return flow_cut(self._vector(at), self._store.savepoints())

    def history(self) -> InfoList[MemberAge]:
        """The age of each member in each cut of the dataflow, with the reason.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND.
            CorruptedError: CLEANCUT_DATAFLOW_CORRUPTED.
        """
        return InfoList(line for record in self._counted() for line in ages(record))

    def _counted(self) -> list[VectorRecord]:
        self._store.flow_id()
        return Pins(self._store, self._places.root).counted(self._store.entries())

    def _vector(self, which: int | str | None) -> VectorRecord:
        """A cut of the dataflow by its number or its name; None is the last."""
        counted = self._counted()
        number = self._store.savepoints().get(which) if isinstance(which, str) else which
        if which is None and counted:
            return counted[-1]
        match = next((record for record in counted if record.number == number), None)
        if match is None:
            there = ", ".join(str(record.number) for record in counted) or "none"
            wanted = "cut" if which is None else f"cut {which}"
            raise self._store.refused("look", f"there is no {wanted}; there are: {there}")
        return match

    def cut(
        self, timeout: Age = 30.0, *, name: str | None = None, wait: bool = True
    ) -> DataflowCut:
        """Makes a consistent cut of the dataflow now.

        Members whose drivers participate close their epochs first. A member that does not close its
        epoch in time contributes an older cut, with the reason; no query waits or stops. If nothing
        has changed since the last cut, the result is that cut.

        Args:
            timeout: how long to wait for members: seconds, a timedelta, or a text such as "30s".
            name: create a savepoint of this name for the cut.
            wait: wait until members have closed their epochs. If not, the cut has what they have
                committed.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND, CLEANCUT_DATAFLOW_REFUSED.
            RetryableError: CLEANCUT_DATAFLOW_INCONSISTENT.
            FencedError: CLEANCUT_DATAFLOW_FENCED, another one has begun meanwhile.
        """
        timeout_s = _seconds(timeout)
        if name is not None:
            self._require_free(name)
        made = None if self._runs is None else self._runs.cut(timeout_s, wait=wait, force=False)
        if made is None:
            made = self._coordinating(lambda coordinator: coordinator.cut(timeout_s, wait=wait))
        if name is not None:
            self._name(name, made)
        return flow_cut(made, self._store.savepoints())

    def create_savepoint(self, name: str, at: int | None = None) -> DataflowCut:
        """Creates a savepoint: retains a cut of the dataflow under a name.

        Args:
            name: 1 to 64 letters, digits, dashes and underscores; no savepoint has it.
            at: the number of the cut; None is the last.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_REFUSED, there is no such cut, or the name is taken.
        """
        self._require_free(name)
        record = self._vector(at)
        self._name(name, record)
        return flow_cut(record, self._store.savepoints())

    def drop_savepoint(self, name: str) -> bool:
        """Drops a savepoint. Returns whether it existed.

        The next `expire` may delete its cut.
        """
        if name not in self._store.savepoints():
            return False
        self._store.objects.delete(names.savepoint_name(name))
        return True

    def _require_free(self, name: str) -> None:
        if not names.is_name(name):
            raise self._store.refused(
                "savepoint", f"{name!r} is no name of 1 to 64 letters, digits, dashes, underscores"
            )
        if name.isdecimal():
            reason = "a name of digits only would be read as the number of a cut"
            raise self._store.refused("savepoint", reason)
        number = self._store.savepoints().get(name)
        if number is not None:
            raise self._store.refused("savepoint", f"cut {number} has the name {name}")

    def _name(self, name: str, record: VectorRecord) -> None:
        if not self._store.name_vector(name, record.number):
            raise self._store.refused("savepoint", f"another cut has the name {name}")
        # The expiry may have missed the name; a cut that exists after it was written is retained.
        if all(retained.number != record.number for retained in self._counted()):
            self._store.objects.delete(names.savepoint_name(name))
            raise self._store.refused("savepoint", f"cut {record.number} was deleted meanwhile")

    def in_flight(self, at: int | str | None = None) -> InfoList[DataflowInFlight]:
        """The epochs on each edge at a cut of the dataflow that are sent and not consumed.

        Args:
            at: the number of a cut, or the name of a savepoint; None is the last.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_REFUSED, there is no such cut.
            CorruptedError: CLEANCUT_SINK_CORRUPTED, a channel is corrupted.
        """
        record = self._vector(at)
        in_flight = []
        for edge in record.edges:
            sender = None if edge.sender is None else record.member(edge.sender)
            if sender is None or edge.sent is None:
                continue
            records = self._places.records(edge.channel)
            epochs = in_flight_epochs(records, edge)
            in_flight.append(
                DataflowInFlight(
                    sender=sender.name,
                    receiver=edge.receiver,
                    epochs=tuple(epoch.epoch for epoch in epochs),
                    rows=sum(epoch.rows for epoch in epochs),
                    bytes=sum(epoch.bytes for epoch in epochs),
                    channel=edge.channel,
                    source=edge.source,
                )
            )
        return InfoList(in_flight)

    def verify(self, at: int | str | None = None) -> DataflowReport:
        """Checks that a cut of the dataflow is complete and consistent.

        It checks that each member's cut is retained and unchanged, that everything it references
        exists, that no member has consumed an epoch that its sender had not sent, and that all
        files of in-flight epochs exist with their sizes. `test_restore` also reads the state.

        Args:
            at: the number of a cut, or the name of a savepoint; None is the last.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_REFUSED, there is no such cut.
        """
        return verify_vector(self._vector(at), self._places)

    def test_restore(self, at: int | str | None = None) -> DataflowReport:
        """Checks a cut of the dataflow as `verify` does, and decodes all its state.

        Args:
            at: the number of a cut, or the name of a savepoint; None is the last.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_REFUSED, there is no such cut.
        """
        return restore_test_vector(self._vector(at), self._places)

    def expire(
        self, *, retain_last: int | None = None, retain_for: timedelta | str | None = None
    ) -> DataflowExpiry:
        """Plans to delete old cuts of the dataflow, and objects that only these reference.

        The last cut and all savepoints are retained. At least one argument is required; with both,
        a cut is retained if either holds.

        Args:
            retain_last: number of cuts to retain, at least 1.
            retain_for: retain cuts that are younger: a timedelta, or a text such as "7d" or "36h".

        Returns:
            The plan. Nothing is deleted until its `apply`.

        Raises:
            ValueError: no argument is given, or it is invalid.
        """
        age = None if retain_for is None else age_of(retain_for)
        if retain_last is None and age is None:
            raise ValueError("expire takes retain_last, retain_for, or both")
        if retain_last is not None and retain_last < 1:
            raise ValueError(f"retain_last is {retain_last}, and must be at least 1")
        since_ms = None if age is None else self._machinery.now_ms() - age_ms(age)
        return plan_expiry(
            self._location,
            self._counted(),
            self._store.savepoints(),
            (retain_last or 1, since_ms),
            self._coordinating,
        )

    # Coordinating

    def run(
        self,
        interval: Age = 60.0,
        *,
        min_pause: Age = 0.0,
        poll: Age = 5.0,
        timeout: Age = 30.0,
        wait: bool = True,
        retain_last: int = 10,
        retain_for: timedelta | str | None = None,
        tolerable_failures: int | None = None,
    ) -> DataflowRun:
        """Starts a coordinator in a thread of this process, which makes cuts until it is stopped.

        The process may be that of a query or another one. A coordinator that runs already is on
        standby from now on. Times are seconds, timedeltas, or texts such as "30s".

        Args:
            interval: time between the starts of two cuts.
            min_pause: minimum time between the end of a cut and the start of the next.
            poll: time between two scans of the members, each of which takes a listing for each
                member and three more.
            timeout: how long to wait for members to close their epochs.
            wait: as for `cut`.
            retain_last: number of cuts to retain; savepoints are retained too.
            retain_for: retain cuts that are younger, too.
            tolerable_failures: number of consecutive failures that do not end it; None is any.

        Returns:
            The coordinator, a context manager that stops it.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND, CLEANCUT_DATAFLOW_REFUSED: this object runs
                one already.
            ValueError: a time is not above 0, or `retain_last` is below 1.
        """
        if self._runs is not None and self._runs.is_active:
            raise self._store.refused("run", "it runs already, by this object")
        if retain_last < 1:
            raise ValueError(f"retain_last is {retain_last}, and must be at least 1")
        pacing = Pacing(
            interval_s=positive_s("interval", interval),
            min_pause_s=_seconds(min_pause),
            poll_s=positive_s("poll", poll),
            timeout_s=_seconds(timeout),
            wait=wait,
            keep=retain_last,
            young_ms=None if retain_for is None else age_ms(retain_for),
            tolerable_failures=tolerable_failures,
        )
        self._runs = DataflowRun(self._coordinator, pacing)
        self._runs.begin()
        return self._runs

    def status(self) -> DataflowStatus:
        """The coordinator, the last cut, the members, and what a cut made now would have.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND.
            CorruptedError: CLEANCUT_DATAFLOW_CORRUPTED.
        """
        scanned = self._scanned()
        counted = self._counted()
        decision = decide(scanned.seen)
        generation, has_ended = names.generations(self._store.objects.list(names.COORDINATORS))
        chosen = decision.chosen
        why = dict(decision.wanting)
        future: dict[str, int | None] | None = None
        if chosen is not None:
            why = {name: choice.why for name, choice in chosen.items() if choice.why is not None}
            future = {
                name: None if choice.facts is None else choice.facts.epoch
                for name, choice in chosen.items()
            }
        return DataflowStatus(
            location=self._location,
            generation=generation or None,
            is_running=generation > 0 and not has_ended,
            coordinator=self._described(generation),
            last=flow_cut(counted[-1], self._store.savepoints()) if counted else None,
            members=InfoList(map(_member_info, scanned.seen.members.values())),
            edges=_edges_now(scanned),
            next=future,
            reasons=why,
            failures=0 if self._runs is None else self._runs.failures,
            last_error=None if self._runs is None else self._runs.last_error,
        )

    def page(self) -> str:
        """The dataflow as one HTML document, without scripts or other files.

        It has a graph of the queries, and the results of `status()`, `in_flight()`, `history()` and
        `cuts()`.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND.
            CorruptedError: CLEANCUT_DATAFLOW_CORRUPTED; CLEANCUT_SINK_CORRUPTED, a channel is
                corrupted.
        """
        return page(self, moment(time.time_ns() // 1_000_000))

    def _described(self, generation: int) -> Mapping[str, Any]:
        name = names.coordinator_name(generation)
        body = self._store.read(name) if generation else None
        if body is None:
            return {}
        record: dict[str, Any] = decoded(body, self._store.objects.path(name), dict)
        if isinstance(record.get("begunMs"), int):
            record["begun"] = str(moment(record["begunMs"]))
        return {key: record[key] for key in ("host", "process", "begun") if key in record}

    def _coordinator(self, **description: object) -> Coordinator:
        return Coordinator(self._store, self._places.root, self._places.records, description)

    def _scanned(self) -> Coordinator:
        """A coordinator that has not begun: it scans, and writes nothing."""
        made = self._coordinator()
        made.scan_all()
        return made

    def _coordinating(self, work: Callable[[Coordinator], Done]) -> Done:
        """Runs work as the coordinator; a coordinator elsewhere is on standby meanwhile."""
        coordinator = self._coordinator(once=True)
        coordinator.begin()
        try:
            return work(coordinator)
        finally:
            coordinator.end()


def _member_info(view: MemberView) -> DataflowMember:
    cuts = view.cuts()
    last = cuts[-1] if cuts else None
    return DataflowMember(
        name=view.name,
        epoch=begun(view.newest),
        written=None if last is None else moment(last.written_ms),
        newest=begun(view.newest),
        reason=view.trouble or next(iter(view.damaged.values()), None),
        checkpoint=view.record.checkpoint,
        query_id=None if last is None else last.query_id,
    )


def _edges_now(scanned: Coordinator) -> InfoList[DataflowEdge]:
    seen = scanned.seen
    senders = seen.senders()
    edges = []
    for name, view in sorted(seen.members.items()):
        cuts = view.cuts()
        for consumed in cuts[-1].consumed if cuts else ():
            channel = seen.place(consumed)
            sender = senders.get(channel)
            edges.append(
                DataflowEdge(
                    sender=sender,
                    receiver=name,
                    consumed=begun(consumed.epoch),
                    sent=None if sender is None else begun(seen.members[sender].newest),
                    channel=channel,
                    source=consumed.source,
                )
            )
    return InfoList(edges)


def _seconds(given: Age) -> float:
    number = given if isinstance(given, int | float) else age_of(given).total_seconds()
    seconds = float(number)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"{given} is no time to wait")
    return seconds


def positive_s(name: str, given: Age) -> float:
    """A time in seconds. Raises ValueError if it is invalid, or 0."""
    seconds = _seconds(given)
    if seconds == 0:
        raise ValueError(f"{name} is 0, and must be longer")
    return seconds
