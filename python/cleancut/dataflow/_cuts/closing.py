"""Asks members to close their epochs, so that a vector is not older than need be.

Whoever runs a query attends to requests: `Attendant`. Nobody has to. A query whose epochs end by
themselves is as fresh without it, and one that does not answer is not waited for again before it
has answered once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cleancut.dataflow._model import names
from cleancut.dataflow._model.records import AnswerRecord, encoded
from cleancut.dataflow._store.members import MemberView
from cleancut.dataflow._store.store import FlowStore

_FIRST_WAIT_S = 0.05
_LONGEST_WAIT_S = 1.0
# So many stay, so that their numbers go on; who is slow answers the last one alone.
_KEPT_REQUESTS = 2


@dataclass
class Closing:
    """The coordinator's side.

    Attributes:
        store: of the dataflow.
        silent: members that have not answered the last time.
    """

    store: FlowStore
    silent: set[str] = field(default_factory=set)

    def close(
        self,
        timeout_s: float,
        members: Mapping[str, MemberView],
        look: Callable[[Sequence[str]], None],
    ) -> Mapping[str, str]:
        """Asks, and waits until who has answered has committed the epoch that it was in.

        Args:
            timeout_s: how long it waits at most.
            members: by name.
            look: reads what some members have committed since.

        Returns:
            The members that have not done so, and why.
        """
        machinery = self.store.machinery
        asked, attending_now = machinery.each(
            self.store.objects.list, (names.REQUESTS, names.ATTENDING)
        )
        attending = names.attending(attending_now) & set(members)
        if not attending:
            look(sorted(members))
            return {}
        number = max(names.requests(asked), default=0) + 1
        until_ms = machinery.now_ms() + round(timeout_s * 1000)
        body = encoded({"askedMs": machinery.now_ms(), "untilMs": until_ms})
        self.store.create(names.request_name(number), body)
        until = machinery.monotonic() + timeout_s
        answered: dict[str, AnswerRecord] = {}
        pause = _FIRST_WAIT_S
        while True:
            self._take_answers(number, attending, answered)
            promised = [of for of in answered if members[of].newest < answered[of].epoch]
            look(promised)
            late = self._late(attending, answered, members)
            is_waited_for = any(name not in self.silent for name in late)
            if not is_waited_for or machinery.monotonic() >= until:
                break
            machinery.wait(min(pause, max(0.0, until - machinery.monotonic())))
            pause = min(2 * pause, _LONGEST_WAIT_S)
        look(sorted(members))
        self.silent = attending - set(answered)
        self._forget(number)
        return self._late(attending, answered, members)

    def _take_answers(
        self, number: int, attending: set[str], answered: dict[str, AnswerRecord]
    ) -> None:
        missing = attending - set(answered)
        if not missing:
            return
        listed = names.answers(self.store.objects.list(names.ANSWERS))
        new = [member for of, member in listed if of == number and member in missing]
        found = self.store.machinery.each(lambda member: self.store.answer(number, member), new)
        answered.update((member, of) for member, of in zip(new, found, strict=True) if of)

    def _late(
        self,
        attending: set[str],
        answered: Mapping[str, AnswerRecord],
        members: Mapping[str, MemberView],
    ) -> dict[str, str]:
        found = {}
        for name in sorted(attending):
            answer = answered.get(name)
            if answer is None:
                found[name] = "it has not answered the request to close its epoch"
            elif members[name].newest < answer.epoch:
                found[name] = f"it has not committed epoch {answer.epoch} in time"
        return found

    def _forget(self, number: int) -> None:
        """Deletes what was asked and answered before."""
        last = number - _KEPT_REQUESTS
        old = [
            names.request_name(of)
            for of in names.requests(self.store.objects.list(names.REQUESTS))
            if of <= last
        ]
        old += [
            names.answer_name(of, member)
            for of, member in names.answers(self.store.objects.list(names.ANSWERS))
            if of <= last
        ]
        self.store.machinery.each(self.store.objects.delete, old)


@dataclass
class Attendant:
    """The side of a member: closes its epoch when it is asked.

    Attributes:
        store: of the dataflow.
        member: what the query is called there.
        close: closes the epoch that runs, if that helps, and tells which one it is.
    """

    store: FlowStore
    member: str
    close: Callable[[], AnswerRecord]
    _last: int = 0

    def begin(self) -> None:
        """Says that somebody attends."""
        self.store.objects.create(names.attending_name(self.member), encoded({}))

    def look(self) -> bool:
        """Answers the last request, if it has not; whether there was one. One listing, mostly."""
        asked = names.requests(self.store.objects.list(names.REQUESTS))
        number = max(asked, default=0)
        if number <= self._last:
            return False
        answer = self.close()
        self.store.create(names.answer_name(number, self.member), answer.encode())
        self._last = number
        return True

    def end(self) -> None:
        """Says that nobody attends any more."""
        self.store.objects.delete(names.attending_name(self.member))
