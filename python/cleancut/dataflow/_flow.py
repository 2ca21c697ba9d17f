"""A dataflow: its members, its cuts, and the coordinator that makes them; no Spark is needed."""

import os
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar, Unpack

from cleancut._display.info_list import InfoList
from cleancut._format.ages import age_ms, age_of, moment
from cleancut._storage.access import S3Access, S3Options
from cleancut.dataflow._cuts.channels import flying
from cleancut.dataflow._cuts.checking import FlowReport, drill_vector, verify_vector
from cleancut.dataflow._cuts.coordinator import Coordinator
from cleancut.dataflow._cuts.decision import decide
from cleancut.dataflow._cuts.expiring import FlowExpiry, plan_expiry
from cleancut.dataflow._cuts.running import FlowRun, Pacing
from cleancut.dataflow._model import names
from cleancut.dataflow._model.infos import (
    FlowAge,
    FlowCut,
    FlowEdge,
    FlowInFlight,
    FlowMember,
    FlowStatus,
    ages,
    begun,
    flow_cut,
)
from cleancut.dataflow._model.records import MemberRecord, VectorRecord, decoded
from cleancut.dataflow._page import page
from cleancut.dataflow._store.log import Pins
from cleancut.dataflow._store.machinery import Machinery
from cleancut.dataflow._store.members import MemberView, looked_at
from cleancut.dataflow._store.places import Places, absolute

Done = TypeVar("Done")
Age = timedelta | float | str


class Flow:
    """Base of `Dataflow`: all of it that needs no Spark."""

    def __init__(
        self,
        location: str | os.PathLike[str],
        **access: Unpack[S3Options],
    ) -> None:
        """Names the place; nothing is looked at yet.

        Args:
            location: where the dataflow keeps its cuts: a local path, `s3://bucket/prefix`, or a
                URI of `hdfs:`. It belongs to the dataflow alone.
            access: for all that is on `s3://`, of the dataflow, its checkpoints and its channels:
                `S3Options`.

        Raises:
            RequestError: CLEANCUT_OBJECT_LOCATION_INVALID, CLEANCUT_DEPENDENCY_MISSING.
        """
        self._location = absolute(location)
        self._places = Places(S3Access(access))
        self._machinery = Machinery()
        self._store = self._places.store(self._location, self._machinery)
        self._runs: FlowRun | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._location!r})"

    @property
    def location(self) -> str:
        """Where it keeps its cuts; a path is absolute."""
        return self._location

    # Members

    def add(self, name: str, checkpoint_location: str | os.PathLike[str]) -> FlowMember:
        """Makes a query a member, running or not, begun or not. Again, it changes nothing.

        Args:
            name: 1 to 64 letters, digits, dashes and underscores.
            checkpoint_location: of the query. Its epochs have to be committed by cuts.

        Returns:
            The member, as it is now.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_REFUSED, that is no name, or another query has it, or
                the query is a member by another one.
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
            found = self._store.members().get(name, record)
            if found.checkpoint != checkpoint:
                reason = f"{name} is the query with the checkpoint {found.checkpoint}"
                raise self._store.refused("add", reason)
        return self._member(record)

    def remove(self, name: str) -> bool:
        """Has a query be a member no more. Cuts of the dataflow that have it keep it.

        Returns:
            Whether there was one of this name.
        """
        if name not in self._store.members():
            return False
        self._store.objects.delete(names.member_name(name))
        return True

    def members(self) -> InfoList[FlowMember]:
        """The queries by their names, as they are now; a listing and a read for each.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND.
            CorruptedError: CLEANCUT_DATAFLOW_CORRUPTED.
        """
        self._store.flow_id()
        return InfoList(map(self._member, self._store.members().values()))

    def _member(self, record: MemberRecord) -> FlowMember:
        return _member_info(looked_at(record, self._places.root, self._machinery, cuts=1))

    def edges(self) -> InfoList[FlowEdge]:
        """The channels that the last cuts of the members read, and how far they have come.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND.
        """
        return _edges_now(self._looking())

    def move_channel(self, channel: str | os.PathLike[str], to: str | os.PathLike[str]) -> None:
        """Notes that a channel lies elsewhere than the cuts of its readers say.

        Args:
            channel: its location when they were written.
            to: where it lies now.
        """
        self._store.flow_id(create=True)
        self._store.move(absolute(channel), absolute(to))

    # Cuts

    def cuts(self) -> InfoList[FlowCut]:
        """The cuts of the dataflow that count, by their numbers.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND.
            CorruptedError: CLEANCUT_DATAFLOW_CORRUPTED.
        """
        saved = self._store.savepoints()
        return InfoList(flow_cut(of, saved) for of in self._counted())

    def at(self, number: int | str | None = None) -> FlowCut:
        """One cut of the dataflow.

        Args:
            number: of the cut, or its name; None is the last.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_REFUSED, there is no such cut.
        """
        return flow_cut(self._vector(number), self._store.savepoints())

    def history(self) -> InfoList[FlowAge]:
        """How old each member was in each cut of the dataflow, and why.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND.
            CorruptedError: CLEANCUT_DATAFLOW_CORRUPTED.
        """
        return InfoList(line for of in self._counted() for line in ages(of))

    def _counted(self) -> list[VectorRecord]:
        self._store.flow_id()
        return Pins(self._store, self._places.root).counted(self._store.entries())

    def _vector(self, which: int | str | None) -> VectorRecord:
        """A cut of the dataflow by its number or its name; None is the last."""
        counted = self._counted()
        number = self._store.savepoints().get(which) if isinstance(which, str) else which
        if which is None and counted:
            return counted[-1]
        found = next((of for of in counted if of.number == number), None)
        if found is None:
            there = ", ".join(str(of.number) for of in counted) or "none"
            wanted = "cut" if which is None else f"cut {which}"
            raise self._store.refused("look", f"there is no {wanted}; there are: {there}")
        return found

    def cut(self, timeout: Age = 30.0, *, name: str | None = None, ask: bool = True) -> FlowCut:
        """Makes a consistent cut of the whole dataflow now.

        Members whose drivers attend close their epochs first. Who does not do so in time has an
        older cut in it, and `why` says so; no query waits or stops. Where nothing has changed since
        the last cut, that is given.

        Args:
            timeout: how long members are waited for: seconds, a timedelta, or a text such as "30s".
            name: what it is to be called, so that it stays until `drop_savepoint`.
            ask: whether members are asked to close their epochs.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND, CLEANCUT_DATAFLOW_REFUSED.
            RetryableError: CLEANCUT_DATAFLOW_INCONSISTENT.
            FencedError: CLEANCUT_DATAFLOW_FENCED, another one has begun meanwhile.
        """
        timeout_s = _seconds(timeout)
        if name is not None:
            self._require_free(name)
        made = None if self._runs is None else self._runs.cut(timeout_s, ask=ask, anew=False)
        if made is None:
            made = self._coordinating(lambda of: of.cut(timeout_s, ask=ask))
        if name is not None:
            self._name(name, made)
        return flow_cut(made, self._store.savepoints())

    def savepoint(self, name: str, number: int | None = None) -> FlowCut:
        """Gives a cut of the dataflow a name, by which it stays.

        Args:
            name: 1 to 64 letters, digits, dashes and underscores; one that none has.
            number: of the cut; None is the last.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_REFUSED, there is no such cut, or the name is taken.
        """
        self._require_free(name)
        record = self._vector(number)
        self._name(name, record)
        return flow_cut(record, self._store.savepoints())

    def drop_savepoint(self, name: str) -> bool:
        """Takes a name away. Returns whether there was one.

        The cut goes when cuts are given up the next time.
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
        number = self._store.savepoints().get(name)
        if number is not None:
            raise self._store.refused("savepoint", f"cut {number} has the name {name}")

    def _name(self, name: str, record: VectorRecord) -> None:
        if not self._store.name_vector(name, record.number):
            raise self._store.refused("savepoint", f"another cut has the name {name}")
        # Who gives cuts up may not have seen the name; what is there after it was written stays.
        if all(of.number != record.number for of in self._counted()):
            self._store.objects.delete(names.savepoint_name(name))
            raise self._store.refused("savepoint", f"cut {record.number} was given up meanwhile")

    def in_flight(self, number: int | str | None = None) -> InfoList[FlowInFlight]:
        """What each edge holds at a cut of the dataflow: sent, and not consumed.

        Args:
            number: of the cut, or its name; None is the last.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_REFUSED, there is no such cut.
            CorruptedError: CLEANCUT_SINK_CORRUPTED, a channel is damaged.
        """
        record = self._vector(number)
        found = []
        for edge in record.edges:
            sender = None if edge.sender is None else record.member(edge.sender)
            if sender is None or edge.sent is None:
                continue
            records = self._places.records(edge.channel)
            epochs = flying(records, edge)
            found.append(
                FlowInFlight(
                    sender=sender.name,
                    receiver=edge.receiver,
                    epochs=tuple(of.epoch for of in epochs),
                    rows=sum(of.rows for of in epochs),
                    bytes=sum(of.bytes for of in epochs),
                    channel=edge.channel,
                    source=edge.source,
                )
            )
        return InfoList(found)

    def verify(self, number: int | str | None = None) -> FlowReport:
        """Checks that a cut of the dataflow is whole and consistent, from its objects alone.

        Checked are that each member's cut is kept and is the one that was chosen, that all that it
        leads to is there, that no member has consumed what its sender has not sent, and that all
        files of what is in flight are there, as large as they were. `drill` reads the state, too.

        Args:
            number: of the cut, or its name; None is the last.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_REFUSED, there is no such cut.
        """
        return verify_vector(self._vector(number), self._places)

    def drill(self, number: int | str | None = None) -> FlowReport:
        """Proves that a cut of the dataflow can be restored: `verify`, and all state is decoded.

        Args:
            number: of the cut, or its name; None is the last.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_REFUSED, there is no such cut.
        """
        return drill_vector(self._vector(number), self._places)

    def expire(
        self, *, keep: int | None = None, younger_than: timedelta | str | None = None
    ) -> FlowExpiry:
        """Plans to give up all cuts of the dataflow but some, and what those alone keep.

        The last one stays, and all that have a name. With both arguments a cut stays for either.

        Args:
            keep: how many of the last stay; from 1 on.
            younger_than: those that were written in this time stay: a timedelta, or "7d", "36h".

        Returns:
            The plan; its `apply` does it.

        Raises:
            ValueError: neither is given, or what is given keeps nothing or is no age.
        """
        age = None if younger_than is None else age_of(younger_than)
        if keep is None and age is None:
            raise ValueError("expire takes keep, younger_than, or both")
        if keep is not None and keep < 1:
            raise ValueError(f"keep is {keep}, and the last cut always stays")
        since_ms = None if age is None else self._machinery.now_ms() - age_ms(age)
        return plan_expiry(
            self._location,
            self._counted(),
            self._store.savepoints(),
            (keep or 1, since_ms),
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
        ask: bool = True,
        keep: int = 10,
        younger_than: timedelta | str | None = None,
        tolerable_failures: int | None = None,
    ) -> FlowRun:
        """Begins to make cuts of the dataflow, in a thread of this process, until it is stopped.

        It may be the process of a query, or one of its own: only the stores join them. Another one
        that runs already stands by from now on. Times are seconds, timedeltas, or texts as "30s".

        Args:
            interval: between the beginnings of two cuts.
            min_pause: between the end of one and the beginning of the next, at least.
            poll: how often members are looked at in between, so that a cut is made of what is
                known. A look is a listing for each member, and three.
            timeout: how long members that close their epochs are waited for.
            ask: whether they are asked to.
            keep: how many cuts stay; those that have a name stay beside these.
            younger_than: cuts that were written in this time stay, too.
            tolerable_failures: how many failures in a row do not end it; None is any number.

        Returns:
            What runs; it is a context manager, which stops it.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND, CLEANCUT_DATAFLOW_REFUSED: this object runs
                one already.
            ValueError: a time is not above 0, or `keep` is below 1.
        """
        if self._runs is not None and self._runs.is_active:
            raise self._store.refused("run", "it runs already, by this object")
        if keep < 1:
            raise ValueError(f"keep is {keep}, and the last cut always stays")
        pacing = Pacing(
            interval_s=positive_s("interval", interval),
            min_pause_s=_seconds(min_pause),
            poll_s=positive_s("poll", poll),
            timeout_s=_seconds(timeout),
            ask=ask,
            keep=keep,
            young_ms=None if younger_than is None else age_ms(younger_than),
            tolerable_failures=tolerable_failures,
        )
        self._runs = FlowRun(self._coordinator, pacing)
        self._runs.begin()
        return self._runs

    def status(self) -> FlowStatus:
        """Where it stands: coordinator, last cut, members, and what a cut made now would have.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND.
            CorruptedError: CLEANCUT_DATAFLOW_CORRUPTED.
        """
        looking = self._looking()
        counted = self._counted()
        decision = decide(looking.seen)
        generation, has_ended = names.generations(self._store.objects.list(names.COORDINATORS))
        chosen = decision.chosen
        why = dict(decision.wanting)
        future: dict[str, int | None] | None = None
        if chosen is not None:
            why = {name: of.why for name, of in chosen.items() if of.why is not None}
            future = {
                name: None if of.facts is None else of.facts.epoch for name, of in chosen.items()
            }
        return FlowStatus(
            location=self._location,
            generation=generation or None,
            runs=generation > 0 and not has_ended,
            coordinator=self._told(generation),
            last=flow_cut(counted[-1], self._store.savepoints()) if counted else None,
            members=InfoList(map(_member_info, looking.seen.members.values())),
            edges=_edges_now(looking),
            next=future,
            why=why,
            failures=0 if self._runs is None else self._runs.failures,
            trouble=None if self._runs is None else self._runs.trouble,
        )

    def page(self) -> str:
        """The dataflow as a document of HTML, which needs no script and no other file.

        It draws how the queries hang together, and has what `status()`, `in_flight()`, `history()`
        and `cuts()` tell.

        Raises:
            RequestError: CLEANCUT_DATAFLOW_NOT_FOUND.
            CorruptedError: CLEANCUT_DATAFLOW_CORRUPTED; CLEANCUT_SINK_CORRUPTED, a channel is
                damaged.
        """
        return page(self, moment(time.time_ns() // 1_000_000))

    def _told(self, generation: int) -> Mapping[str, Any]:
        name = names.coordinator_name(generation)
        body = self._store.read(name) if generation else None
        if body is None:
            return {}
        found: dict[str, Any] = decoded(body, self._store.objects.path(name), dict)
        if isinstance(found.get("begunMs"), int):
            found["begun"] = str(moment(found["begunMs"]))
        return {key: found[key] for key in ("host", "process", "begun") if key in found}

    def _coordinator(self, **told: object) -> Coordinator:
        return Coordinator(self._store, self._places.root, self._places.records, told)

    def _looking(self) -> Coordinator:
        """One that has not begun: it looks around, and writes nothing."""
        made = self._coordinator()
        made.look_around()
        return made

    def _coordinating(self, act: Callable[[Coordinator], Done]) -> Done:
        """Does something as the coordinator; one that runs elsewhere stands by meanwhile."""
        coordinator = self._coordinator(once=True)
        coordinator.begin()
        try:
            return act(coordinator)
        finally:
            coordinator.end()


def _member_info(view: MemberView) -> FlowMember:
    cuts = view.cuts()
    last = cuts[-1] if cuts else None
    return FlowMember(
        name=view.name,
        epoch=begun(view.newest),
        written=None if last is None else moment(last.written_ms),
        newest=begun(view.newest),
        why=view.trouble or next(iter(view.damaged.values()), None),
        checkpoint=view.record.checkpoint,
        query_id=None if last is None else last.query_id,
    )


def _edges_now(looking: Coordinator) -> InfoList[FlowEdge]:
    seen = looking.seen
    senders = seen.senders()
    found = []
    for name, view in sorted(seen.members.items()):
        cuts = view.cuts()
        for of in cuts[-1].consumed if cuts else ():
            channel = seen.place(of)
            sender = senders.get(channel)
            found.append(
                FlowEdge(
                    sender=sender,
                    receiver=name,
                    consumed=begun(of.epoch),
                    sent=None if sender is None else begun(seen.members[sender].newest),
                    channel=channel,
                    source=of.source,
                )
            )
    return InfoList(found)


def _seconds(given: Age) -> float:
    number = given if isinstance(given, int | float) else age_of(given).total_seconds()
    seconds = float(number)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"{given} is no time to wait")
    return seconds


def positive_s(name: str, given: Age) -> float:
    """A time in seconds. Raises ValueError, it is none, or 0."""
    seconds = _seconds(given)
    if seconds == 0:
        raise ValueError(f"{name} is 0, and is to be longer")
    return seconds
