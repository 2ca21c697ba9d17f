"""Who looks, and what was seen last: samples for whoever asks, without a wait for a store."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from cleancut._metrics.samples import Sample
from cleancut.errors import CleancutError


class Look(Protocol):
    """Reads the samples of a query, or of several, as they are now."""

    @property
    def location(self) -> str:
        """What it looks at, as a label."""

    def look(self) -> Sequence[Sample]:
        """The samples.

        Raises:
            CleancutError: what is looked at cannot be asked, or is damaged.
            OSError: likewise of a file system.
        """


class Looks:
    """The last samples of several looks.

    One that fails keeps its last samples, and says that it has failed: whoever watches is told of
    it by `look_success`, and not by a gap.

    Args:
        looks: what is looked at.
        failed: is told of each failure.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        looks: Iterable[Look],
        failed: Callable[[str, Exception], None] = lambda location, error: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._looks = list(looks)
        self._failed = failed
        self._clock = clock
        self._seen: dict[str, Sequence[Sample]] = {}
        self._succeeded_s: dict[str, float] = {}
        self._success: dict[str, bool] = {}
        self._lock = threading.Lock()

    def look(self) -> bool:
        """Looks at all of them, one behind the other; returns whether each look was one."""
        for of in self._looks:
            try:
                found, error = of.look(), None
            except (CleancutError, OSError) as raised:
                found, error = None, raised
            with self._lock:
                self._success[of.location] = error is None
                if found is not None:
                    self._seen[of.location] = found
                    self._succeeded_s[of.location] = self._clock()
            if error is not None:
                self._failed(of.location, error)
        return all(self._success.values())

    def samples(self) -> list[Sample]:
        """What was seen last."""
        with self._lock:
            found = [sample for samples in self._seen.values() for sample in samples]
            for location, success in self._success.items():
                label: Mapping[str, str] = {"location": location}
                found.append(Sample("look_success", float(success), label))
                if location in self._succeeded_s:
                    at_s = self._succeeded_s[location]
                    found.append(Sample("look_timestamp_seconds", at_s, label))
        return found
