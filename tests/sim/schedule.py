"""Actors of which one runs at a time, until its next request; a seed selects the next one.

Each actor has a separate thread, so that the code under test runs unchanged. A seed replays the
same run.
"""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from cleancut.errors import error_of


class CrashError(BaseException):
    """The actor has crashed: it runs no more code, and `except Exception` does not catch it."""


def locked() -> threading.Lock:
    """A lock that another thread releases; faster than a semaphore of Python."""
    made = threading.Lock()
    made.acquire()
    return made


@dataclass
class Faults:
    """Faults of requests, by probability.

    Attributes:
        crash: the actor crashes, before or after the effect.
        lost: the request has no effect, and fails.
        unheard: the request has its effect, and fails.
        freeze: the actor pauses for a long time.
    """

    crash: float = 0.004
    lost: float = 0.004
    unheard: float = 0.006
    freeze: float = 0.01


@dataclass
class Actor:
    """A concurrent process.

    Attributes:
        name: the name in messages.
        body: the function that it runs.
        weight: its relative frequency of steps.
        frozen: the number of steps of others for which it pauses.
    """

    name: str
    body: Callable[[], None]
    weight: int = 1
    frozen: int = 0
    done: bool = False
    go: threading.Lock = field(default_factory=locked)
    thread: threading.Thread | None = None
    failure: BaseException | None = None


class Schedule:
    """Lets actors take steps.

    Attributes:
        draw: the source of all random choices of the run.
        faults: the faults of requests; None for none.
        seconds: the time of the clock.
        log: the events, for a replay.
        met: the faults that have happened.
    """

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.faults: Faults | None = Faults()
        self.seconds = 1000.0
        self.log: list[str] = []
        self.met: set[str] = set()
        self.is_ending = False
        self._actors: list[Actor] = []
        self._back = locked()
        self._current: Actor | None = None

    def add(self, name: str, body: Callable[[], None], *, weight: int = 1) -> None:
        """Adds an actor, which begins with its first step."""
        self._actors.append(Actor(name, body, weight))

    def run(self, steps: int) -> None:
        """Runs at most this number of steps; then crashes the remaining actors."""
        for _ in range(steps):
            waiting = [actor for actor in self._actors if not actor.done]
            if not waiting:
                break
            for actor in waiting:
                actor.frozen = max(0, actor.frozen - 1)
            ready = [actor for actor in waiting if not actor.frozen] or waiting
            weights = [actor.weight for actor in ready]
            self._step(self.draw.choices(ready, weights)[0])
        self.end()

    def end(self) -> None:
        """Crashes the remaining actors, and raises the failures of actors."""
        self.is_ending = True
        for actor in self._actors:
            while not actor.done:
                self._step(actor)
        self.is_ending = False
        failures = [actor.failure for actor in self._actors if actor.failure is not None]
        self._actors = []
        for failure in failures:
            raise failure

    def _step(self, actor: Actor) -> None:
        self._current = actor
        if actor.thread is None:
            actor.thread = threading.Thread(target=self._body, args=(actor,), daemon=True)
            actor.thread.start()
        else:
            actor.go.release()
        self._back.acquire()
        if actor.done:
            actor.thread.join()

    def _body(self, actor: Actor) -> None:
        try:
            if not self.is_ending:
                actor.body()
        except CrashError:
            pass
        except BaseException as failure:
            actor.failure = failure
        actor.done = True
        self._back.release()

    def pause(self) -> None:
        """Lets other actors continue; an actor calls it before each request."""
        actor = self._current
        if actor is None or threading.current_thread() is not actor.thread:
            return
        self._back.release()
        actor.go.acquire()
        self._current = actor
        if self.is_ending:
            raise CrashError

    def before(self, operation: str, key: str) -> None:
        """Executes the faults before the effect of a request."""
        self.pause()
        self.log.append(f"{self._name()} {operation} {key}")
        faults = self.faults
        if faults is None:
            return
        chance = self.draw.random()
        if chance < faults.crash / 2:
            self._die("before a request")
        if chance < faults.crash / 2 + faults.lost:
            self._fail("lost", operation, key)
        if self.draw.random() < faults.freeze and self._current is not None:
            self._current.frozen = self.draw.choice((5, 20, 80))
            self.met.add("paused")

    def after(self, operation: str, key: str) -> None:
        """Executes the faults after the effect of a request."""
        faults = self.faults
        if faults is None:
            return
        chance = self.draw.random()
        if chance < faults.crash / 2:
            self._die("after a request")
        if chance < faults.crash / 2 + faults.unheard:
            self._fail("unheard", operation, key)

    def _name(self) -> str:
        return "world" if self._current is None else self._current.name

    def _die(self, when: str) -> None:
        self.log.append(f"{self._name()} dies {when}")
        self.met.add(f"crashed {when}")
        raise CrashError

    def _fail(self, how: str, operation: str, key: str) -> None:
        self.log.append(f"{self._name()} {how}")
        self.met.add(how)
        raise error_of(
            "CLEANCUT_OBJECT_STORE_UNAVAILABLE",
            operation=operation,
            target=key,
            attempts=1,
            waitedMs=0,
            detail=how,
        )
