"""Which vectors of cuts are consistent, and the newest of them; docs/concepts/dataflow.md.

A vector has one cut of each query. It is consistent if on no edge the receiver has consumed an
epoch that comes after the sender's: then each row is in the state behind it, or in flight, and
never both. Consistent vectors are closed under the maximum by members, so there is a newest one.
It is found from above: whoever is ahead of a sender is lowered, until nobody is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# The epoch of a query that has no cut yet, and of a channel of which nothing was consumed.
NOT_BEGUN = -1


@dataclass(frozen=True)
class Received:
    """What a cut has consumed through one source.

    Attributes:
        source: the number of the source in its query.
        channel: the location of the channel.
        sender: the member that sends there; None where it is none of the dataflow.
        epoch: the last that was consumed; -1 for none.
    """

    source: str
    channel: str
    sender: str | None
    epoch: int


@dataclass(frozen=True)
class Candidate:
    """A cut of a member that a vector may have.

    Attributes:
        epoch: Spark's batch id; -1 for a query that has not begun.
        received: by its sources that are channels.
    """

    epoch: int
    received: tuple[Received, ...] = ()


History = Mapping[str, Sequence[Candidate]]
Vector = Mapping[str, int]


@dataclass(frozen=True)
class Ahead:
    """Why a cut does not go into a vector: it has consumed what its sender's cut has not sent.

    Attributes:
        epoch: of the cut.
        received: what it has consumed of whom.
        sender_epoch: of the sender's cut.
    """

    epoch: int
    received: Received
    sender_epoch: int

    def __str__(self) -> str:
        of = self.received
        return (
            f"epoch {self.epoch} has consumed epoch {of.epoch} of {of.sender} through source "
            f"{of.source}, and {of.sender} is at {_at(self.sender_epoch)}"
        )


@dataclass(frozen=True)
class Outcome:
    """The newest consistent vector of some histories.

    Attributes:
        vector: the epoch of each member; None where there is none.
        why: for each member that is older than its last cut, what keeps back the next one.
        exhausted: where there is none, the members of which older cuts are wanted, and why.
    """

    vector: Vector | None
    why: Mapping[str, Ahead]
    exhausted: Mapping[str, Ahead]


def newest(history: History) -> Outcome:
    """The newest consistent vector; the greatest in each member of all that there are.

    Args:
        history: the cuts of each member that may be taken, ascending; one at least.
    """
    at = {member: len(cuts) - 1 for member, cuts in history.items()}
    lowered = True
    while lowered:
        lowered = False
        epochs = {member: history[member][place].epoch for member, place in at.items()}
        for member in history:
            found = _ahead(history[member][at[member]], epochs)
            if found is None:
                continue
            if at[member] == 0:
                return Outcome(None, {}, {member: found})
            at[member] -= 1
            epochs[member] = history[member][at[member]].epoch
            lowered = True
    return Outcome(epochs, dict(_kept_back(history, at, epochs)), {})


def _ahead(cut: Candidate, vector: Vector) -> Ahead | None:
    for of in cut.received:
        if of.sender is not None and of.sender in vector and of.epoch > vector[of.sender]:
            return Ahead(cut.epoch, of, vector[of.sender])
    return None


def _kept_back(history: History, at: Mapping[str, int], vector: Vector) -> list[tuple[str, Ahead]]:
    """To raise one member alone can only be refused for what that member has consumed."""
    found = []
    for member, place in at.items():
        if place + 1 < len(history[member]):
            reason = _ahead(history[member][place + 1], vector)
            assert reason is not None, "the vector is not the newest one"
            found.append((member, reason))
    return found


def _at(epoch: int) -> str:
    return "its beginning" if epoch == NOT_BEGUN else f"epoch {epoch}"
