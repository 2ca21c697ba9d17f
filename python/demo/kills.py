"""The plan of the kills, drawn from the seed before the run starts."""

import enum
import random
from dataclasses import dataclass


class Aim(enum.Enum):
    """The moment of a kill."""

    ANYWHERE = "any moment of an epoch"
    COMMIT = "right after a sink finished"
    RECOVERY = "right after a restart"


@dataclass(frozen=True)
class Kill:
    """One planned kill.

    Attributes:
        after_epochs: the number of committed epochs of both queries before the kill.
        aim: the moment that it then waits for.
        delay: the delay after that moment, as a share (0 to 1) of the duration of the phase.
    """

    after_epochs: int
    aim: Aim
    delay: float


# The last tenth of the run has no kills, because they might be too late.
_LAST_PART = 0.9


def most_kills(epochs: int) -> int:
    """Returns the maximum number of kills of a run.

    Args:
        epochs: the epochs of both queries together.
    """
    return int(epochs * _LAST_PART) // 2


def plan_executor_kills(count: int, epochs: int, seed: int) -> list[int]:
    """Draws the numbers of epochs of both queries after which an executor is killed."""
    draw = random.Random(f"executors {seed}")
    strip = epochs * _LAST_PART / max(count, 1)
    return [int(strip * (number + draw.random())) for number in range(count)]


def plan_kills(count: int, epochs: int, seed: int) -> list[Kill]:
    """Draws the kills of a run, spread over its length, in order.

    Args:
        count: the number of kills, at most `most_kills(epochs)`.
        epochs: the number of epochs of both queries together.
        seed: the same seed gives the same plan.
    """
    draw = random.Random(seed)
    aims = [list(Aim)[number % len(Aim)] for number in range(count)]
    draw.shuffle(aims)
    if aims and aims[0] is Aim.RECOVERY:
        # The first run recovers nothing.
        other = next((at for at, aim in enumerate(aims) if aim is not Aim.RECOVERY))
        aims[0], aims[other] = aims[other], aims[0]
    strip = epochs * _LAST_PART / max(count, 1)
    return [
        Kill(
            after_epochs=int(strip * (number + draw.random())),
            aim=aim,
            delay=draw.random(),
        )
        for number, aim in enumerate(aims)
    ]
