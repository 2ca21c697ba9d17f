"""The epochs that a target must have by the query's checkpoint, and accepted exceptions."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class EpochRanges:
    """Epochs of a query.

    Attributes:
        ranges: the first and the last epoch of each range, ascending.
    """

    ranges: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(epochs: Iterable[int]) -> "EpochRanges":
        """The ranges of some epochs."""
        ranges: list[tuple[int, int]] = []
        for epoch in sorted(set(epochs)):
            if ranges and ranges[-1][1] == epoch - 1:
                ranges[-1] = (ranges[-1][0], epoch)
            else:
                ranges.append((epoch, epoch))
        return EpochRanges(tuple(ranges))

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __str__(self) -> str:
        named = [str(one) if one == last else f"{one} to {last}" for one, last in self.ranges]
        is_one = len(self.ranges) == 1 and self.first == self.last
        return f"{'epoch' if is_one else 'epochs'} {', '.join(named)}"

    @property
    def first(self) -> int:
        """The first epoch; there must be one."""
        return self.ranges[0][0]

    @property
    def last(self) -> int:
        """The last epoch; there must be one."""
        return self.ranges[-1][1]

    def between(self, first: int, last: int) -> "EpochRanges":
        """The epochs from `first` to `last`."""
        cut = ((max(one, first), min(end, last)) for one, end in self.ranges)
        return EpochRanges(tuple((one, end) for one, end in cut if one <= end))

    def where(self, is_kept: Callable[[int], bool]) -> "EpochRanges":
        """The epochs for which a condition holds."""
        numbers = (number for one, end in self.ranges for number in range(one, end + 1))
        return EpochRanges.of(filter(is_kept, numbers))


NO_EPOCHS = EpochRanges()


@dataclass(frozen=True)
class Expected:
    """The epochs that a target must have, and exceptions that the operator accepted.

    Attributes:
        published: the epochs that the checkpoint records as published there and that count.
        gaps: the first and the last epoch of each accepted loss.
        moves: locations from which the checkpoint was moved without an operation.
    """

    published: EpochRanges = NO_EPOCHS
    gaps: Sequence[tuple[int, int]] = ()
    moves: Sequence[str] = ()

    def lost(self, last: int, before: int) -> EpochRanges:
        """The epochs that the target lacks, unless these very epochs are accepted.

        Args:
            last: the last epoch that the target has.
            before: the epoch that is about to be written.
        """
        return self.unless_accepted(self.published.between(last + 1, before - 1))

    def unless_accepted(self, lost: EpochRanges) -> EpochRanges:
        """Empty if a gap equals these epochs by its first and last one."""
        return NO_EPOCHS if lost and (lost.first, lost.last) in self.gaps else lost
