"""What a target should have, by the record of the query's checkpoint, and what is accepted."""

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
        """The first epoch, of which there has to be one."""
        return self.ranges[0][0]

    @property
    def last(self) -> int:
        """The last epoch, of which there has to be one."""
        return self.ranges[-1][1]

    def between(self, first: int, last: int) -> "EpochRanges":
        """Those from one epoch to another one."""
        cut = ((max(one, first), min(end, last)) for one, end in self.ranges)
        return EpochRanges(tuple((one, end) for one, end in cut if one <= end))

    def where(self, is_kept: Callable[[int], bool]) -> "EpochRanges":
        """Those for which a condition holds."""
        numbers = (number for one, end in self.ranges for number in range(one, end + 1))
        return EpochRanges.of(filter(is_kept, numbers))


NO_EPOCHS = EpochRanges()


@dataclass(frozen=True)
class Expected:
    """The epochs that a target should have, and what was accepted by name.

    Attributes:
        published: what the checkpoint records that the query has published there, and that counts.
        gaps: the first and the last epoch of each loss that was accepted.
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
        """Nothing, where a gap has the first and the last of these epochs."""
        return NO_EPOCHS if lost and (lost.first, lost.last) in self.gaps else lost
