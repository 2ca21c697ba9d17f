"""Verifies all cuts of a checkpoint, their segments, and every version of the cuts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cleancut._checkpoint.read.cut_info import other_provider
from cleancut._checkpoint.read.cut_reader import CutReader, Parts, follows, range_of
from cleancut._checkpoint.read.root import Root
from cleancut._checkpoint.read.state import State
from cleancut._checkpoint.read.stored_cut import StoredCut
from cleancut._checkpoint.verify.findings import Finding, finding_of
from cleancut._checkpoint.verify.segments import check_segments
from cleancut._format.chains import Chain, PlacedFrame
from cleancut._format.cut.cut import CutRef
from cleancut._format.cut.page import read_page
from cleancut._format.frame.frame import Frame
from cleancut._format.layout import FrameName, PageName, StoreId
from cleancut._storage.parallel import mapped, windows
from cleancut.errors import CleancutError

# Maximum size of frames that are read before they are decoded.
_WINDOW_BYTES = 256 << 20


@dataclass
class CutCheck:
    """Verifies cuts and the objects that they reference; collects problems, never raises them.

    Attributes:
        root: the checkpoint.
        epochs: the epochs that have a cut.
        cuts: number of intact cuts, whatever the state of the objects that they reference.
        committed: the intact cuts, ordered by epoch.
        operators: the operators of the last intact cut.
        savepoints: number of intact savepoints.
        pages: number of intact pages.
        segments: number of segments whose header, table and trailer are intact.
        unnamed: number of segments that neither an intact cut nor an intact savepoint references.
        frames: number of intact frames.
        bytes: size of these frames.
        loadable: number of versions, over all stores, that can be loaded.
        stores: all stores of the intact cuts and savepoints.
        provider: provider class of the last intact cut, if it is not Cleancut's.
        findings: the problems, by object and offset in it.
    """

    root: Root
    epochs: Sequence[int]
    cuts: int = 0
    committed: list[StoredCut] = field(default_factory=list)
    operators: set[int] = field(default_factory=set)
    savepoints: int = 0
    pages: int = 0
    segments: int = 0
    unnamed: int = 0
    frames: int = 0
    bytes: int = 0
    loadable: int = 0
    stores: set[StoreId] = field(default_factory=set)
    provider: str | None = None
    findings: dict[tuple[str, int], Finding] = field(default_factory=dict)
    _pinned: set[int] = field(default_factory=set)

    def run(self) -> None:
        """Reads everything."""
        reader = CutReader(self.root.objects)
        cuts = self._read_cuts(reader)
        checks = self._chains(cuts, reader)
        self._read_pages(cuts)
        self._read_tables(checks, cuts, reader)
        self.stores = {check.store for check in checks.values() if check.chains}
        for group in windows(checks.values(), StoreCutCheck.size, _WINDOW_BYTES):
            parts = reader.read(frame for check in group for frame in check.placed)
            for check in group:
                check.run(parts)
                self.frames += check.frames
                self.bytes += check.bytes
                self.loadable += len(check.loadable)
        self._forget_retired()

    def _read_cuts(self, reader: CutReader) -> list[StoredCut]:
        def read(name: int | str) -> StoredCut | Finding | None:
            try:
                return reader.cut(name) if isinstance(name, int) else reader.savepoint(name)
            except CleancutError as error:
                if isinstance(name, str):
                    return finding_of(reader.savepoint_path(name), error)
                finding = finding_of(reader.path(name), error)
                finding.add(name + 1)
                return finding
            except FileNotFoundError:
                return None

        names: list[int | str] = [*self.epochs, *self.root.savepoints()]
        cuts = []
        for name, result in zip(names, mapped(read, names), strict=True):
            if isinstance(result, Finding):
                self.findings[result.path, 0] = result
            elif result is not None:
                cuts.append(result)
                self.cuts += isinstance(name, int)
                if isinstance(name, int):
                    self.committed.append(result)
                    self.provider = other_provider(result)
                else:
                    self.savepoints += 1
                    self._pinned.add(result.version)
        # Chains are applied in this order, each continuing the one before if possible.
        return sorted(cuts, key=lambda cut: cut.epoch)

    def _chains(
        self, cuts: Iterable[StoredCut], reader: CutReader
    ) -> "dict[StoreId, StoreCutCheck]":
        checks: dict[StoreId, StoreCutCheck] = {}
        for cut in cuts:
            chains, errors = cut.survey()
            for error in errors:
                path = str(error.params.get("path", cut.path))
                self.findings.setdefault((path, 0), finding_of(path, error)).add(cut.version)
            if self.committed and cut is self.committed[-1]:
                self.operators = {store.operator for store in chains if not store.is_channel}
            for store, chain in chains.items():
                check = checks.setdefault(store, StoreCutCheck(reader, store, self.findings))
                check.chains[cut.ref] = chain
                check.placed.update(dict.fromkeys(chain))
        return dict(sorted(checks.items()))

    def _read_pages(self, cuts: Iterable[StoredCut]) -> None:
        """Reads also the pages that no cut references; the others were read for their cuts."""
        named = {page.name for cut in cuts for page in cut.paged.pages}
        unnamed = [name for name in self.root.pages() if name not in named]
        objects = self.root.objects

        def checked(name: PageName) -> Finding | None:
            path = objects.path(str(name))
            try:
                read_page(objects.read(str(name)), path, name)
            except CleancutError as error:
                return finding_of(path, error)
            except FileNotFoundError:
                pass
            return None

        for finding in mapped(checked, unnamed):
            if finding is not None:
                self.findings[finding.path, 0] = finding
        paths = (objects.path(str(name)) for name in [*named, *unnamed])
        self.pages = sum((path, 0) not in self.findings for path in paths)

    def _read_tables(
        self,
        checks: "dict[StoreId, StoreCutCheck]",
        cuts: Iterable[StoredCut],
        reader: CutReader,
    ) -> None:
        """Adds the frames that no cut references: those of attempts that did not count."""
        named = {frame.segment for check in checks.values() for frame in check.placed}
        named |= {part.segment for cut in cuts for part in cut.paged.window}
        named |= {name for cut in cuts for base in cut.referred for name in base.segments}
        sizes = self.root.segments()
        self.unnamed = len(sizes.keys() - named)
        for _, result in check_segments(self.root.objects, sizes):
            if isinstance(result, Finding):
                self.findings.setdefault((result.path, 0), result)
                continue
            self.segments += 1
            for frame in result:
                store = frame.store
                check = checks.setdefault(store, StoreCutCheck(reader, store, self.findings))
                check.placed.setdefault(frame)

    def _forget_retired(self) -> None:
        """Drops what is missing because a running query has deleted it in the meantime."""
        missing = {key: finding for key, finding in self.findings.items() if finding.is_missing}
        if not missing:
            return
        there = {epoch + 1 for epoch in self.root.epochs()} | self._pinned
        for key, finding in missing.items():
            finding.affects = [version for version in finding.affects if version in there]
            if not finding.affects:
                del self.findings[key]


@dataclass
class StoreCutCheck:
    """Verifies one store: each of its frames, and its version in each cut.

    It keeps the state of the previous cut, so that a chain is applied once, and not once for each
    version on it.

    Attributes:
        reader: reads frames.
        store: the store.
        findings: receives the problems.
        chains: the chain in each cut and savepoint, by version.
        placed: all its frames, from cuts and from segment tables, in any order.
        frames: number of intact frames.
        bytes: size of these frames.
        loadable: the versions that can be loaded.
    """

    reader: CutReader
    store: StoreId
    findings: dict[tuple[str, int], Finding]
    chains: dict[CutRef, Chain] = field(default_factory=dict)
    placed: dict[PlacedFrame, None] = field(default_factory=dict)
    frames: int = 0
    bytes: int = 0
    loadable: set[int] = field(default_factory=set)
    _state: State | None = None
    _applied: Chain = ()
    _bad: dict[PlacedFrame, Finding] = field(default_factory=dict)
    _sound: set[PlacedFrame] = field(default_factory=set)

    def size(self) -> int:
        """The size of the frames to read, in bytes."""
        return sum(part.length for part in set(map(range_of, self.placed)))

    def run(self, parts: Parts) -> None:
        """Checks everything, given the bytes of all its frames."""
        for cut, chain in self.chains.items():
            finding = self._check(cut, chain, parts)
            if finding is None:
                self.loadable.add(cut.version)
            else:
                finding.add(cut.version)
        for frame in self.placed:
            if frame not in self._sound and frame not in self._bad:
                self._frame(frame, parts, None)

    def _check(self, cut: CutRef, chain: Chain, parts: Parts) -> Finding | None:
        """The reason why the version of a cut cannot be loaded; None if it can."""
        before, applied = self._state, self._applied
        known = next((self._bad[placed] for placed in chain if placed in self._bad), None)
        if known is not None:
            return known
        self._state, self._applied = None, ()
        if before is not None and chain[: len(applied)] == applied:
            state, rest, before = before, chain[len(applied) :], None
        else:
            state, rest = State(), chain
        for placed in rest:
            finding = self._apply(state, placed, parts, cut)
            if finding is None and before is not None:
                finding = self._compare(state, chain[0], before, parts)
            if finding is not None:
                return finding
        self._state, self._applied = state, chain
        return None

    def _apply(
        self, state: State, placed: PlacedFrame, parts: Parts, cut: CutRef
    ) -> Finding | None:
        frame = self._frame(placed, parts, cut)
        if isinstance(frame, Finding):
            return frame
        try:
            self.reader.append(state, frame, cut)
        except CleancutError as error:
            if error.error_id == "CLEANCUT_CUT_CORRUPTED":
                return self._found(cut.path, 0, error)
            if frame.sources is not None:
                return self._found_in_source(frame, error)
            return self._found_in(placed, error)
        return None

    def _found_in_source(self, base: Frame, error: CleancutError) -> Finding:
        """Reports a problem of a frame that a snapshot references as a separate finding."""
        path = error.params.get("path", error.params.get("directory", base.request.path))
        return self._found(str(path), int(error.params.get("offset", 0)), error)

    def _compare(
        self, state: State, base: PlacedFrame, before: State, parts: Parts
    ) -> Finding | None:
        """Compares the state of a snapshot with that of changelogs, at the same version."""
        if before.version < base.name.version == state.version:
            self._follow(before, base, parts)
        at = state.version, state.version_id
        if at != (before.version, before.version_id) or state.rows == before.rows:
            return None
        error = self.reader.request(base).damaged(
            "its rows are not those of the deltas that lead to it"
        )
        return self._found_in(base, error)

    def _follow(self, before: State, base: PlacedFrame, parts: Parts) -> None:
        """Applies the changelog of a snapshot's version, if it exists but no cut references it."""
        twin = FrameName(base.name.version, base.name.version_id, "delta")
        for placed in self.placed:
            if placed.name != twin or placed in self._bad:
                continue
            frame = self._frame(placed, parts, None)
            if isinstance(frame, Frame) and follows(frame, before):
                try:
                    before.apply(frame)
                except CleancutError as error:
                    self._found_in(placed, error)
                return

    def _frame(self, placed: PlacedFrame, parts: Parts, cut: CutRef | None) -> Frame | Finding:
        if placed in self._bad:
            return self._bad[placed]
        try:
            frame = self.reader.frame(placed, parts, cut)
        except CleancutError as error:
            return self._found_in(placed, error)
        if placed not in self._sound:
            self._sound.add(placed)
            self.frames += 1
            self.bytes += frame.size_bytes
        return frame

    def _found_in(self, placed: PlacedFrame, error: CleancutError) -> Finding:
        # A missing segment is one finding for all its frames.
        is_missing = error.error_id == "CLEANCUT_FRAME_MISSING"
        path = self.reader.objects.path(placed.segment)
        finding = self._found(path, 0 if is_missing else placed.offset, error)
        self._bad[placed] = finding
        return finding

    def _found(self, path: str, place: int, error: CleancutError) -> Finding:
        return self.findings.setdefault((path, place), finding_of(path, error))
