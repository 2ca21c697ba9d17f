"""Verifies all frames of one store, and all its versions, reading each frame once."""

from dataclasses import dataclass, field

from cleancut._checkpoint.read.state import State
from cleancut._checkpoint.read.store_reader import StoreReader
from cleancut._checkpoint.verify.findings import Finding, finding_of
from cleancut._format.frame.frame import Frame
from cleancut._format.layout import FrameName
from cleancut.errors import CleancutError


@dataclass
class StoreCheck:
    """Verifies one store, from its lowest version up.

    It keeps the state of the previous version, so that a chain of changelogs is applied once, and
    not once for each version on it.

    Attributes:
        reader: reads the store.
        frames: number of frames that were read.
        bytes: size of these frames.
        findings: the problems, by path.
        loadable: the versions that can be loaded.
        retired: older versions of which retention has deleted frames.
    """

    reader: StoreReader
    frames: int = 0
    bytes: int = 0
    findings: dict[str, Finding] = field(default_factory=dict)
    loadable: list[int] = field(default_factory=list)
    retired: set[int] = field(default_factory=set)
    _state: State | None = None
    _causes: dict[tuple[int, str], Finding | None] = field(default_factory=dict)

    def run(self) -> None:
        """Reads everything; problems are collected, never raised."""
        for version, ids in self.reader.listing.ids.items():
            for version_id in ids:
                cause = self._check(version, version_id)
                self._causes[version, version_id] = cause
                if cause is not None:
                    cause.add(version)
            if self._causes[version, ids[-1]] is None:
                self.loadable.append(version)
        self._retire()

    def _retire(self) -> None:
        """Ignores missing frames below the oldest loadable version: retention deleted them."""
        oldest = min(self.loadable, default=0)
        for path, finding in list(self.findings.items()):
            if finding.is_missing and all(version < oldest for version in finding.affects):
                self.retired.update(finding.affects)
                del self.findings[path]

    def _check(self, version: int, version_id: str) -> Finding | None:
        """The reason why a version cannot be loaded; None if it can. Keeps the version's state."""
        base = self._read(FrameName(version, version_id, "base"))
        delta = self._read(FrameName(version, version_id, "delta"))
        if base is None:
            return self._check_delta(delta)
        rebuilt = self._state if self._is_next(delta) else None
        if rebuilt is not None and isinstance(delta, Frame) and self._apply(rebuilt, delta):
            rebuilt = None
        self._state = None
        if isinstance(base, Finding):
            return base
        state = State()
        finding = self._apply(state, base)
        if finding is None and rebuilt is not None and rebuilt.rows != state.rows:
            error = base.request.damaged("its rows are not those of the deltas that lead to it")
            finding = self._found(base.request.path, error)
        if finding is None:
            self._state = state
        return finding

    def _check_delta(self, delta: Frame | Finding | None) -> Finding | None:
        state, self._state = self._state if self._is_next(delta) else None, None
        if not isinstance(delta, Frame):
            return delta
        parent_version, parent_id = delta.identity.parent_version, delta.identity.parent_id
        if not parent_version or parent_id is None:
            state = State()
        elif (parent_version, parent_id) not in self._causes:
            # Either kind of frame suffices; the error names the changelog.
            name = FrameName(parent_version, parent_id, "delta")
            error = self.reader.missing(delta.identity.name.version, f"{name} is missing")
            return self._found(self.reader.path(name), error)
        elif (cause := self._causes[parent_version, parent_id]) is not None:
            return cause
        elif state is None:
            try:
                state = self.reader.load(parent_version, parent_id)
            except CleancutError as error:
                # It was intact a moment ago: a running query has deleted its parent.
                return self._found(delta.request.path, error)
        finding = self._apply(state, delta)
        if finding is None:
            self._state = state
        return finding

    def _is_next(self, delta: Frame | Finding | None) -> bool:
        """Whether a changelog applies to the current state."""
        return (
            isinstance(delta, Frame)
            and self._state is not None
            and delta.identity.parent_version == self._state.version
            and delta.identity.parent_id == self._state.version_id
        )

    def _read(self, name: FrameName) -> Frame | Finding | None:
        if name not in self.reader.listing.sizes:
            return None
        try:
            frame = self.reader.frame(name)
        except CleancutError as error:
            return self._found(self.reader.path(name), error)
        self.frames += 1
        self.bytes += frame.size_bytes
        return frame

    def _apply(self, state: State, frame: Frame) -> Finding | None:
        try:
            state.apply(frame)
        except CleancutError as error:
            return self._found(frame.request.path, error)
        return None

    def _found(self, path: str, error: CleancutError) -> Finding:
        return self.findings.setdefault(path, finding_of(path, error))
