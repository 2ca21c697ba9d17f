"""Whether a cut of a dataflow is whole, and consistent, by what its objects say."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from cleancut._brief import Brief
from cleancut._checkpoint.read.cut_reader import CutReader
from cleancut._checkpoint.read.root import Root
from cleancut._checkpoint.read.stored_cut import StoredCut
from cleancut._checkpoint.verify.restore_test import RestoreTest, run_restore_test
from cleancut._display import html, tables
from cleancut.dataflow._cuts.channels import FlyingEpoch, flying
from cleancut.dataflow._model.facts import consumed_in
from cleancut.dataflow._model.records import MemberCut, VectorRecord
from cleancut.dataflow._model.vector import NOT_BEGUN
from cleancut.dataflow._store.places import Places
from cleancut.errors import CleancutError, first_line
from cleancut.sinks._epoch_log.records import PlainRecords


@dataclass(frozen=True, repr=False)
class DataflowProblem(Brief):
    """What is wrong with a cut of a dataflow.

    Attributes:
        where: the member, or the channel.
        detail: what is wrong.
    """

    where: str
    detail: str


@dataclass(frozen=True, repr=False)
class DataflowReport(Brief):
    """What a check of a cut of a dataflow has found.

    Attributes:
        number: of the cut.
        members: how many were checked.
        edges: likewise.
        segments: how many objects of state their cuts lead to.
        epochs: how many epochs are in flight.
        files: how many files these have.
        rows: how many rows of state were decoded; None if none were to be.
        problems: what is wrong.
    """

    number: int
    members: int
    edges: int
    segments: int
    epochs: int
    files: int
    rows: int | None
    problems: tuple[DataflowProblem, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_dict(self) -> Mapping[str, Any]:
        """The same as plain values, for JSON."""
        return asdict(self) | {"ok": self.ok}

    def __str__(self) -> str:
        return tables.text_facts(self._facts())

    def _repr_html_(self) -> str:
        return html.facts(self._facts())

    def _facts(self) -> list[tuple[str, object]]:
        facts: list[tuple[str, object]] = [("cut", str(self.number))]
        facts += [("members", f"{self.members}, whose cuts lead to {self.segments} segments")]
        facts += [("edges", f"{self.edges}, with {self.epochs} epochs in flight")]
        facts += [("files in flight", str(self.files))]
        facts += [] if self.rows is None else [("rows of state decoded", str(self.rows))]
        facts += [(f"problem of {of.where}", of.detail) for of in self.problems]
        return [*facts, ("verdict", "whole and consistent" if self.ok else "not to be relied on")]


class _Check:
    """Collects what is found."""

    def __init__(self, record: VectorRecord, places: Places) -> None:
        self._record = record
        self._places = places
        self.problems: list[DataflowProblem] = []
        self.segments = self.epochs = self.files = 0

    def problem(self, where: str, detail: object) -> None:
        self.problems.append(DataflowProblem(where, str(detail)))

    def member(self, cut: MemberCut) -> None:
        """Reads a member's cut where it is kept, and looks for what it leads to."""
        if cut.pin is None:
            return
        try:
            root = self._places.root(cut.checkpoint)
            stored = CutReader(root.objects).savepoint(cut.pin)
            self._compare(cut, stored)
            self.segments += self._parts(cut, root, stored)
        except (CleancutError, OSError) as error:
            self.problem(cut.name, error)

    def _compare(self, cut: MemberCut, stored: StoredCut) -> None:
        if (stored.epoch, stored.token) != (cut.epoch, cut.token):
            self.problem(cut.name, f"{cut.pin} keeps another cut, of epoch {stored.epoch}")
        found = {(of.source, of.epoch, of.attempt) for of in consumed_in(stored.offsets)}
        edges = (of for of in self._record.edges if of.receiver == cut.name)
        said = {(of.source, of.consumed, of.attempt) for of in edges}
        if found != said:
            self.problem(cut.name, f"it has consumed {sorted(found)}, and the cut says otherwise")

    def _parts(self, cut: MemberCut, root: Root, stored: StoredCut) -> int:
        """How many objects a cut leads to; all have to be there."""
        named = stored.named()
        there = {*root.segments(), *map(str, root.pages())}
        for name in sorted(named - there)[:3]:
            self.problem(cut.name, f"{root.objects.path(name)} is missing")
        return len(named)

    def edges(self) -> None:
        """Looks whether nothing was consumed that was not sent, and for what is in flight."""
        for edge in self._record.edges:
            sender = None if edge.sender is None else self._record.member(edge.sender)
            if sender is None or edge.sent is None:
                continue
            if edge.sent != sender.epoch or edge.consumed > edge.sent:
                detail = f"epoch {edge.consumed} was consumed, and {edge.sent} was the last sent"
                self.problem(edge.channel, detail)
            if edge.consumed != NOT_BEGUN and not edge.lineage.counts(edge.consumed):
                self.problem(edge.channel, f"{edge.sender} has gone back behind {edge.consumed}")
            try:
                records = self._places.records(edge.channel)
                found = flying(records, edge)
                self.epochs += len(found)
                self.files += sum(self._files(records, of) for of in found)
            except (CleancutError, OSError) as error:
                self.problem(edge.channel, error)

    def _files(self, records: PlainRecords, of: FlyingEpoch) -> int:
        """How many files an epoch has; all have to be there, and as large as they were."""
        wanted = {file.name: file.bytes for file in of.manifest.files}
        if wanted:
            there = records.sizes(of.manifest.attempt.directory)
            for name, size in wanted.items():
                if there.get(name) != size:
                    found = there.get(name)
                    has = "is missing" if found is None else f"has {found} bytes, not {size}"
                    self.problem(records.at(name), has)
        return len(wanted)

    def report(self, rows: int | None) -> DataflowReport:
        return DataflowReport(
            number=self._record.number,
            members=len(self._record.members),
            edges=len(self._record.edges),
            segments=self.segments,
            epochs=self.epochs,
            files=self.files,
            rows=rows,
            problems=tuple(self.problems),
        )


def verify_vector(record: VectorRecord, places: Places) -> DataflowReport:
    """Checks a cut of a dataflow; what is wrong is in the report, never raised."""
    check = _Check(record, places)
    for of in record.members:
        check.member(of)
    check.edges()
    return check.report(None)


def restore_test_vector(record: VectorRecord, places: Places) -> DataflowReport:
    """The same, and reads and decodes the state of all members."""
    report = verify_vector(record, places)
    rows, problems = 0, list(report.problems)
    for found in _restore_tests(record, places):
        if isinstance(found, DataflowProblem):
            problems.append(found)
        else:
            rows += found.rows + found.in_flight_rows
    return replace(report, rows=rows, problems=tuple(problems))


def _restore_tests(record: VectorRecord, places: Places) -> Iterator[RestoreTest | DataflowProblem]:
    for of in record.members:
        if of.pin is not None:
            try:
                yield run_restore_test(places.root(of.checkpoint), of.pin, read_only=True)
            except (CleancutError, OSError) as error:
                yield DataflowProblem(of.name, first_line(error))
