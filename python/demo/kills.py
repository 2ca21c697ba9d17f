"""When the driver is killed: drawn once, from the seed, before the run starts."""

import enum
import random
from dataclasses import dataclass


class Aim(enum.Enum):
    """What moment a kill looks for."""

    ANYWHERE = "any moment of an epoch"
    COMMIT = "right after a sink finished"
    RECOVERY = "right after a restart"


@dataclass(frozen=True)
class Kill:
    """One planned kill.

    Attributes:
        after_epochs: it waits until both queries together have committed so many epochs.
        aim: the moment that it then looks for.
        delay: it strikes so long after that moment, as a part (0 to 1) of what the phase takes that
            it aims at.
    """

    after_epochs: int
    aim: Aim
    delay: float


# The last tenth of the run is left alone: there a kill could come too late to hit anything.
_LAST_PART = 0.9


def most_kills(epochs: int) -> int:
    """How many kills fit into a run.

    Args:
        epochs: of both queries together.
    """
    return int(epochs * _LAST_PART) // 2


def plan_executor_kills(count: int, epochs: int, seed: int) -> list[int]:
    """Draws after how many epochs of both queries together an executor is killed, in order."""
    draw = random.Random(f"executors {seed}")
    strip = epochs * _LAST_PART / max(count, 1)
    return [int(strip * (number + draw.random())) for number in range(count)]


def plan_kills(count: int, epochs: int, seed: int) -> list[Kill]:
    """Draws the kills of a run, spread over its length, in order.

    Args:
        count: how many, at most `most_kills(epochs)`.
        epochs: that both queries together will commit.
        seed: the same seed gives the same plan.
    """
    draw = random.Random(seed)
    aims = [list(Aim)[number % len(Aim)] for number in range(count)]
    draw.shuffle(aims)
    if aims and aims[0] is Aim.RECOVERY:
        # Nothing is recovered in the first life.
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
