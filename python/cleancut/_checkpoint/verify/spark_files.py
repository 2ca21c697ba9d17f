"""Verifies the files that a restart requires in addition to the state, most of them Spark's."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from cleancut._checkpoint.read.root import Root
from cleancut._checkpoint.verify import spark_entries
from cleancut._checkpoint.verify.findings import Finding, finding_of
from cleancut._format.cut.cut import Cut
from cleancut._format.envelope import cut_damaged
from cleancut._format.layout import (
    CUTS,
    FORMAT_OBJECT,
    OWNERS,
    ROOT,
    cut_name,
    parse_cut_name,
    parse_owner_name,
)
from cleancut._format.spark.log_entries import rolled_back_from, unused_before
from cleancut._format.spark.spark_names import DIRECTORIES, METADATA, is_sparks
from cleancut._storage.parallel import mapped
from cleancut._storage.side_files import agrees, side_file_of
from cleancut.errors import CleancutError, error_of


@dataclass
class SparkFilesCheck:
    """Verifies Spark's files, and Cleancut's without a checksum in their content.

    It collects problems, and never raises them.

    Attributes:
        root: the checkpoint.
        cuts: its intact cuts, ordered by epoch.
        operators: the operators with state in the last cut.
        files: number of intact files of Spark.
        findings: the problems, by path.
    """

    root: Root
    cuts: Sequence[Cut]
    operators: Iterable[int]
    files: int = 0
    findings: dict[str, Finding] = field(default_factory=dict)
    _entries: dict[str, bytes] = field(default_factory=dict)

    def run(self) -> None:
        """Reads everything."""
        names = self._listed()
        self._read([METADATA, *names])
        if self.cuts or names:
            self._check_metadata()
        if names:
            for name in names:
                self._check_content(name)
            self._check_copies()
            self._check_missing(names)
        self._check_own()
        self.files = len(self._entries.keys() - {self._name(path) for path in self.findings})

    def _listed(self) -> list[str]:
        listed = chain.from_iterable(map(self.root.checkpoint.list, DIRECTORIES))
        return sorted(filter(is_sparks, listed))

    def _read(self, names: Iterable[str]) -> None:
        for name, result in zip(names, mapped(self._one, names), strict=True):
            if isinstance(result, CleancutError):
                self._found(name, result)
            elif result is not None:
                self._entries[name] = result

    def _one(self, name: str) -> bytes | CleancutError | None:
        objects = self.root.checkpoint
        try:
            data = objects.read(name)
        except FileNotFoundError:
            return None
        except CleancutError as error:
            return error
        try:
            side = objects.read(side_file_of(name))
        except FileNotFoundError:
            return data
        if agrees(data, side):
            return data
        return cut_damaged(objects.path(name), "it differs from its checksum file")

    def _check_metadata(self) -> None:
        query = next((cut.query_id for cut in reversed(self.cuts) if cut.query_id), None)
        path = self.root.checkpoint.path(METADATA)
        if METADATA in self._entries:
            id_found = spark_entries.query_id_of(self._entries[METADATA])
            if id_found is None:
                self._damaged(METADATA, "it holds no id of a query")
            elif query not in (None, id_found):
                detail = f"it is that of the query {id_found}, and the last cut is of {query}"
                self._damaged(METADATA, detail)
        elif path not in self.findings:
            facts = {"location": self.root.location, "path": path, "query": query or "(unknown)"}
            self._found(METADATA, error_of("CLEANCUT_METADATA_MISSING", **facts))

    def _check_own(self) -> None:
        listed = sorted(self.root.objects.list(OWNERS))
        owners = [name for name in listed if parse_owner_name(name) is not None]
        names = [f"{ROOT}/{name}" for name in (FORMAT_OBJECT, *owners)]
        for name, result in zip(names, mapped(self._one, names), strict=True):
            if isinstance(result, CleancutError):
                self._found(name, result)
            elif result is not None and not spark_entries.is_object(result):
                self._damaged(name, "it is no JSON object")

    def _check_content(self, name: str) -> None:
        if name in self._entries:
            detail = spark_entries.problem_of(name, self._entries[name])
            if detail is not None:
                self._damaged(name, detail)

    def _check_copies(self) -> None:
        """Compares the entries of each epoch with the copies in its cut."""
        for cut in self.cuts:
            for log, text in (("offsets", cut.offsets), ("commits", cut.commit)):
                name = f"{log}/{cut.epoch}"
                if self._entries.get(name, text.encode()) != text.encode():
                    self._damaged(name, f"{cut.path} holds another entry of this epoch")

    def _check_missing(self, names: Sequence[str]) -> None:
        missing = [name for name, _ in self._missing(names)]
        if missing:
            # A running query may have deleted old entries in the meantime.
            for name, needed_by in self._missing(self._listed()):
                if name in missing:
                    self._damaged(name, f"it is missing, and {needed_by}")

    def _missing(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """The missing files, each with the reason why it must exist."""
        offsets = spark_entries.numbers(names, "offsets")
        last = max([*offsets, *(cut.epoch for cut in self.cuts)], default=-1)
        missing = [*self._gaps(offsets, "offsets", {cut.epoch for cut in self.cuts[-1:]})]
        committed = spark_entries.numbers(names, "commits")
        missing += self._gaps(committed | self._unused(offsets), "commits", set())
        entry = self._entries.get(f"offsets/{last}", b"")
        missing += spark_entries.missing_of_sources(names, entry, last)
        missing += self._missing_cut(committed)
        return missing + spark_entries.missing_of_operators(
            names, self.operators, self._entries, entry
        )

    def _missing_cut(self, committed: set[int]) -> list[tuple[str, str]]:
        """The cut of the last epoch in the commit log, whose entry is written after the cut."""
        last = max(committed, default=-1)
        epochs = map(parse_cut_name, self.root.objects.list(CUTS))
        cuts = [epoch for epoch in epochs if epoch is not None]
        if not cuts or max(cuts) >= last:
            return []
        name = self.root.objects.path(cut_name(last))
        return [(self._name(name), f"the commit log ends with epoch {last}")]

    def _unused(self, offsets: set[int]) -> set[int]:
        """The epochs before those of operations, which are planned and not committed."""
        unused: set[int] = set()
        cuts = {cut.epoch for cut in self.cuts}
        for epoch in offsets:
            entry = self._entries.get(f"offsets/{epoch}", b"").decode("utf-8", "replace")
            last, number = rolled_back_from(entry), unused_before(entry)
            unused |= set() if last is None else set(range(last + 1, epoch))
            if number is not None:
                unused.add(number)
                # The epoch itself may also belong to an operation that was not completed.
                if epoch < number or (cuts and min(cuts) < epoch and epoch not in cuts):
                    unused.add(epoch)
        return unused

    def _gaps(self, there: set[int], log: str, wanted: set[int]) -> list[tuple[str, str]]:
        every = there | wanted
        oldest = max(min(every, default=0), min((cut.epoch for cut in self.cuts), default=0))
        missing = set(range(oldest, max(every, default=-1) + 1)) - there
        return [(f"{log}/{epoch}", f"a restart needs epoch {epoch}") for epoch in sorted(missing)]

    def _damaged(self, name: str, detail: str) -> None:
        self._found(name, cut_damaged(self.root.checkpoint.path(name), detail))

    def _found(self, name: str, error: CleancutError) -> None:
        path = self.root.checkpoint.path(name)
        self.findings.setdefault(path, finding_of(path, error))

    def _name(self, path: str) -> str:
        return path.removeprefix(self.root.checkpoint.path(""))
