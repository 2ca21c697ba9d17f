"""Verifies that a cut of a dataflow is complete and consistent."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from cleancut._brief import Brief
from cleancut._checkpoint.read.cut_reader import CutReader
from cleancut._checkpoint.read.root import Root
from cleancut._checkpoint.read.stored_cut import StoredCut
from cleancut._checkpoint.verify.restore_test import RestoreTest, run_restore_test
from cleancut._display import html, tables
from cleancut.dataflow._cuts.channels import InFlightEpoch, in_flight_epochs
from cleancut.dataflow._model.facts import consumed_in
from cleancut.dataflow._model.records import MemberCut, VectorRecord
from cleancut.dataflow._model.vector import NOT_BEGUN
from cleancut.dataflow._store.places import Places
from cleancut.errors import CleancutError, first_line
from cleancut.sinks._epoch_log.records import PlainRecords


@dataclass(frozen=True, repr=False)
class DataflowProblem(Brief):
    """A problem of a cut of a dataflow.

    Attributes:
        where: the member, or the channel.
        detail: the problem.
    """

    where: str
    detail: str


@dataclass(frozen=True, repr=False)
class DataflowReport(Brief):
    """The result of a verification of a cut of a dataflow.

    Attributes:
        number: number of the cut.
        members: number of verified members.
        edges: number of verified edges.
        segments: number of segments that the members' cuts reference.
        epochs: number of in-flight epochs.
        files: number of their files.
        rows: number of decoded rows of state; None if no state was read.
        problems: the problems.
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
        """Whether there is no problem."""
        return not self.problems

    def to_dict(self) -> Mapping[str, Any]:
        """The report as plain values, for JSON."""
        return asdict(self) | {"ok": self.ok}

    def __str__(self) -> str:
        return tables.text_facts(self._facts())

    def _repr_html_(self) -> str:
        return html.facts(self._facts())

    def _facts(self) -> list[tuple[str, object]]:
        facts: list[tuple[str, object]] = [("cut", str(self.number))]
        facts += [("members", f"{self.members}, whose cuts reference {self.segments} segments")]
        facts += [("edges", f"{self.edges}, with {self.epochs} in-flight epochs")]
        facts += [("in-flight files", str(self.files))]
        facts += [] if self.rows is None else [("rows of state decoded", str(self.rows))]
        facts += [(f"problem of {problem.where}", problem.detail) for problem in self.problems]
        return [*facts, ("verdict", "complete and consistent" if self.ok else "not reliable")]


class _Check:
    """Collects problems."""

    def __init__(self, record: VectorRecord, places: Places) -> None:
        self._record = record
        self._places = places
        self.problems: list[DataflowProblem] = []
        self.segments = self.epochs = self.files = 0

    def problem(self, where: str, detail: object) -> None:
        self.problems.append(DataflowProblem(where, str(detail)))

    def member(self, cut: MemberCut) -> None:
        """Reads a member's cut from its savepoint, and checks the objects that it references."""
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
        consumed = {(edge.source, edge.epoch, edge.attempt) for edge in consumed_in(stored.offsets)}
        edges = (edge for edge in self._record.edges if edge.receiver == cut.name)
        recorded = {(edge.source, edge.consumed, edge.attempt) for edge in edges}
        if consumed != recorded:
            self.problem(cut.name, f"it has consumed {sorted(consumed)}, unlike the dataflow's cut")

    def _parts(self, cut: MemberCut, root: Root, stored: StoredCut) -> int:
        """The number of objects that a cut references; all must exist."""
        named = stored.named()
        there = {*root.segments(), *map(str, root.pages())}
        for name in sorted(named - there)[:3]:
            self.problem(cut.name, f"{root.objects.path(name)} is missing")
        return len(named)

    def edges(self) -> None:
        """Checks that only sent epochs were consumed, and that in-flight epochs exist."""
        for edge in self._record.edges:
            sender = None if edge.sender is None else self._record.member(edge.sender)
            if sender is None or edge.sent is None:
                continue
            if edge.sent != sender.epoch or edge.consumed > edge.sent:
                detail = f"epoch {edge.consumed} was consumed, and {edge.sent} was the last sent"
                self.problem(edge.channel, detail)
            if edge.consumed != NOT_BEGUN and not edge.lineage.counts(edge.consumed):
                self.problem(
                    edge.channel, f"{edge.sender} was rolled back to before {edge.consumed}"
                )
            try:
                records = self._places.records(edge.channel)
                epochs = in_flight_epochs(records, edge)
                self.epochs += len(epochs)
                self.files += sum(self._files(records, epoch) for epoch in epochs)
            except (CleancutError, OSError) as error:
                self.problem(edge.channel, error)

    def _files(self, records: PlainRecords, epoch: InFlightEpoch) -> int:
        """The number of files of an epoch; all must exist with their sizes."""
        wanted = {file.name: file.bytes for file in epoch.manifest.files}
        if wanted:
            there = records.sizes(epoch.manifest.attempt.directory)
            for name, size in wanted.items():
                if there.get(name) != size:
                    size_there = there.get(name)
                    has = (
                        "is missing"
                        if size_there is None
                        else f"has {size_there} bytes, not {size}"
                    )
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
    """Verifies a cut of a dataflow; problems are in the report, never raised."""
    check = _Check(record, places)
    for member in record.members:
        check.member(member)
    check.edges()
    return check.report(None)


def restore_test_vector(record: VectorRecord, places: Places) -> DataflowReport:
    """Verifies a cut of a dataflow, and reads and decodes the state of all members."""
    report = verify_vector(record, places)
    rows, problems = 0, list(report.problems)
    for result in _restore_tests(record, places):
        if isinstance(result, DataflowProblem):
            problems.append(result)
        else:
            rows += result.rows + result.in_flight_rows
    return replace(report, rows=rows, problems=tuple(problems))


def _restore_tests(record: VectorRecord, places: Places) -> Iterator[RestoreTest | DataflowProblem]:
    for member in record.members:
        if member.pin is not None:
            try:
                yield run_restore_test(places.root(member.checkpoint), member.pin, read_only=True)
            except (CleancutError, OSError) as error:
                yield DataflowProblem(member.name, first_line(error))
