"""Consistent vectors of cuts, and the newest of them; see docs/concepts/dataflow.md.

A vector has one cut of each query. It is consistent if on no edge the receiver has consumed an
epoch that comes after the sender's: then each row is either in the state downstream or in flight,
and never both. Consistent vectors are closed under the maximum by members, so there is a newest
one. It is found from above: each member that is ahead of a sender is lowered, until none is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# The epoch of a query without a cut, and of a channel of which nothing was consumed.
NOT_BEGUN = -1


@dataclass(frozen=True)
class Received:
    """The position of a cut in a channel.

    Attributes:
        source: number of the source in its query.
        channel: location of the channel.
        sender: the member that sends; None if no member does.
        epoch: the last consumed epoch; -1 for none.
    """

    source: str
    channel: str
    sender: str | None
    epoch: int


@dataclass(frozen=True)
class Candidate:
    """A cut of a member that a vector may have.

    Attributes:
        epoch: Spark's batch id; -1 for a query that has not started.
        received: its positions in channels.
    """

    epoch: int
    received: tuple[Received, ...] = ()


History = Mapping[str, Sequence[Candidate]]
Vector = Mapping[str, int]


@dataclass(frozen=True)
class Ahead:
    """The reason why a cut is not in a vector: it has consumed an epoch after the sender's cut.

    Attributes:
        epoch: epoch of the cut.
        received: its position in the channel.
        sender_epoch: epoch of the sender's cut.
    """

    epoch: int
    received: Received
    sender_epoch: int

    def __str__(self) -> str:
        received = self.received
        return (
            f"epoch {self.epoch} has consumed epoch {received.epoch} of {received.sender} through "
            f"source {received.source}, and {received.sender} is at {_at(self.sender_epoch)}"
        )


@dataclass(frozen=True)
class Outcome:
    """The newest consistent vector of the members' cuts.

    Attributes:
        vector: the epoch of each member; None if there is no consistent vector.
        why: for each member that is older than its last cut, the reason why the next cut is not
            possible.
        exhausted: if there is no vector, the members whose older cuts are required, with the
            reason.
    """

    vector: Vector | None
    why: Mapping[str, Ahead]
    exhausted: Mapping[str, Ahead]


def newest(history: History) -> Outcome:
    """The newest consistent vector: the greatest one in each member.

    Args:
        history: the cuts of each member, ascending; at least one.
    """
    at = {member: len(cuts) - 1 for member, cuts in history.items()}
    lowered = True
    while lowered:
        lowered = False
        epochs = {member: history[member][place].epoch for member, place in at.items()}
        for member in history:
            ahead = _ahead(history[member][at[member]], epochs)
            if ahead is None:
                continue
            if at[member] == 0:
                return Outcome(None, {}, {member: ahead})
            at[member] -= 1
            epochs[member] = history[member][at[member]].epoch
            lowered = True
    return Outcome(epochs, dict(_kept_back(history, at, epochs)), {})


def _ahead(cut: Candidate, vector: Vector) -> Ahead | None:
    for received in cut.received:
        if (
            received.sender is not None
            and received.sender in vector
            and received.epoch > vector[received.sender]
        ):
            return Ahead(cut.epoch, received, vector[received.sender])
    return None


def _kept_back(history: History, at: Mapping[str, int], vector: Vector) -> list[tuple[str, Ahead]]:
    """Checks for each member the next cut: only its own positions can make it impossible."""
    reasons = []
    for member, place in at.items():
        if place + 1 < len(history[member]):
            reason = _ahead(history[member][place + 1], vector)
            assert reason is not None, "the vector is not the newest one"
            reasons.append((member, reason))
    return reasons


def _at(epoch: int) -> str:
    return "its beginning" if epoch == NOT_BEGUN else f"epoch {epoch}"
