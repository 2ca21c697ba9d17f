"""Periodic scans of checkpoints or drivers, and the samples of the last successful ones."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from cleancut._metrics.samples import Sample
from cleancut.errors import CleancutError


class Scan(Protocol):
    """Reads the current samples of one or more queries."""

    @property
    def location(self) -> str:
        """The checkpoint or driver that is scanned, as a label."""

    def scan(self) -> Sequence[Sample]:
        """The current samples.

        Raises:
            CleancutError: the object store or driver does not answer, or an object is corrupted.
            OSError: the same for a file system.
        """


class Scans:
    """The latest samples of several scans.

    A scan that fails keeps its previous samples and sets `scan_success` to 0, so that a monitoring
    system sees the failure and no gap.

    Args:
        scans: the scans to run.
        failed: called with the location and the error of each failure.
        clock: Unix time in seconds.
    """

    def __init__(
        self,
        scans: Iterable[Scan],
        failed: Callable[[str, Exception], None] = lambda location, error: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._scans = list(scans)
        self._failed = failed
        self._clock = clock
        self._latest: dict[str, Sequence[Sample]] = {}
        self._succeeded_s: dict[str, float] = {}
        self._success: dict[str, bool] = {}
        self._lock = threading.Lock()

    def run(self) -> bool:
        """Runs each scan once, one after the other; returns whether all succeeded."""
        for scan in self._scans:
            samples: Sequence[Sample] | None = None
            error: Exception | None = None
            try:
                samples = scan.scan()
            except (CleancutError, OSError) as raised:
                error = raised
            with self._lock:
                self._success[scan.location] = error is None
                if samples is not None:
                    self._latest[scan.location] = samples
                    self._succeeded_s[scan.location] = self._clock()
            if error is not None:
                self._failed(scan.location, error)
        return all(self._success.values())

    def samples(self) -> list[Sample]:
        """The samples of the last successful scans, and whether the last ones succeeded."""
        with self._lock:
            latest = [sample for samples in self._latest.values() for sample in samples]
            for location, success in self._success.items():
                label: Mapping[str, str] = {"location": location}
                latest.append(Sample("scan_success", float(success), label))
                if location in self._succeeded_s:
                    at_s = self._succeeded_s[location]
                    latest.append(Sample("last_scan_timestamp_seconds", at_s, label))
        return latest
