"""Requests to members to close their epochs, so that a cut of the dataflow is recent.

A driver answers requests by a `RequestResponder`, which is optional. A query whose epochs end by
themselves needs none. A member that has not answered is not waited for again until it has answered
once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cleancut.dataflow._model import names
from cleancut.dataflow._model.records import AnswerRecord, encoded
from cleancut.dataflow._store.members import MemberView
from cleancut.dataflow._store.store import DataflowStore

_FIRST_WAIT_S = 0.05
_LONGEST_WAIT_S = 1.0
# Number of retained requests, so that numbers continue; a slow member answers the last one only.
_KEPT_REQUESTS = 2


@dataclass
class CloseRequests:
    """The coordinator's side of requests.

    Attributes:
        store: store of the dataflow.
        silent: members that have not answered the last request.
    """

    store: DataflowStore
    silent: set[str] = field(default_factory=set)

    def close(
        self,
        timeout_s: float,
        members: Mapping[str, MemberView],
        scan: Callable[[Sequence[str]], None],
    ) -> Mapping[str, str]:
        """Requests members to close their epochs, and waits for the commits of those that answer.

        Args:
            timeout_s: maximum time to wait.
            members: the members, by name.
            scan: reads the new commits of some members.

        Returns:
            The members that have not closed their epoch, with the reason.
        """
        machinery = self.store.machinery
        earlier, attending_now = machinery.each(
            self.store.objects.list, (names.REQUESTS, names.ATTENDING)
        )
        attending = names.attending(attending_now) & set(members)
        if not attending:
            scan(sorted(members))
            return {}
        number = max(names.requests(earlier), default=0) + 1
        until_ms = machinery.now_ms() + round(timeout_s * 1000)
        body = encoded({"askedMs": machinery.now_ms(), "untilMs": until_ms})
        self.store.create(names.request_name(number), body)
        until = machinery.monotonic() + timeout_s
        answered: dict[str, AnswerRecord] = {}
        pause = _FIRST_WAIT_S
        while True:
            self._take_answers(number, attending, answered)
            promised = [
                member for member in answered if members[member].newest < answered[member].epoch
            ]
            scan(promised)
            late = self._late(attending, answered, members)
            is_waited_for = any(name not in self.silent for name in late)
            if not is_waited_for or machinery.monotonic() >= until:
                break
            machinery.wait(min(pause, max(0.0, until - machinery.monotonic())))
            pause = min(2 * pause, _LONGEST_WAIT_S)
        scan(sorted(members))
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
        new = [member for request, member in listed if request == number and member in missing]
        replies = self.store.machinery.each(lambda member: self.store.answer(number, member), new)
        answered.update(
            (member, reply) for member, reply in zip(new, replies, strict=True) if reply
        )

    def _late(
        self,
        attending: set[str],
        answered: Mapping[str, AnswerRecord],
        members: Mapping[str, MemberView],
    ) -> dict[str, str]:
        late = {}
        for name in sorted(attending):
            answer = answered.get(name)
            if answer is None:
                late[name] = "it has not answered the request to close its epoch"
            elif members[name].newest < answer.epoch:
                late[name] = f"it has not committed epoch {answer.epoch} in time"
        return late

    def _forget(self, number: int) -> None:
        """Deletes old requests and answers."""
        last = number - _KEPT_REQUESTS
        old = [
            names.request_name(number)
            for number in names.requests(self.store.objects.list(names.REQUESTS))
            if number <= last
        ]
        old += [
            names.answer_name(number, member)
            for number, member in names.answers(self.store.objects.list(names.ANSWERS))
            if number <= last
        ]
        self.store.machinery.each(self.store.objects.delete, old)


@dataclass
class RequestResponder:
    """The member's side of requests: closes its epoch on request.

    Attributes:
        store: store of the dataflow.
        member: name of the member.
        close: closes the current epoch, if that is possible, and returns which one it is.
    """

    store: DataflowStore
    member: str
    close: Callable[[], AnswerRecord]
    _last: int = 0

    def begin(self) -> None:
        """Registers that the member answers requests."""
        self.store.objects.create(names.attending_name(self.member), encoded({}))

    def scan(self) -> bool:
        """Answers the last request, if it is new; returns whether it was. Usually one listing."""
        requests = names.requests(self.store.objects.list(names.REQUESTS))
        number = max(requests, default=0)
        if number <= self._last:
            return False
        answer = self.close()
        self.store.create(names.answer_name(number, self.member), answer.encode())
        self._last = number
        return True

    def end(self) -> None:
        """Removes the registration."""
        self.store.objects.delete(names.attending_name(self.member))
