"""The phases of an epoch, which follow each other and add up to its duration."""

from collections.abc import Mapping

# Names of the phases in the order of time, each with the timings of a record that it consists of.
# The drivers' EpochPhase.scala has the same ones.
PHASES: Mapping[str, tuple[str, ...]] = {
    "source": ("sourceMs",),
    "planning": ("planMs",),
    "map side": ("mapMs",),
    "state operators": ("stateMs",),
    "sink": ("sinkMs",),
    "commit": ("sealMs", "gateMs", "cutMs", "checkMs"),
}
OTHER = "other"


def phases_of(timings: Mapping[str, int], cut_ms: int | None) -> dict[str, int]:
    """Milliseconds of each phase.

    Args:
        timings: timings of the cut or of the record.
        cut_ms: duration of the write of the cut, if it is known.
    """
    known = dict(timings) | {"cutMs": cut_ms or 0}
    phases = {name: sum(known.get(key, 0) for key in keys) for name, keys in PHASES.items()}
    whole = sum(known.get(key, 0) for key in ("epochMs", "cutMs", "checkMs"))
    return phases | {OTHER: max(whole - sum(phases.values()), 0)}


def longest_phase(phases: Mapping[str, int]) -> str | None:
    """The longest phase with its share, such as "map side 98%"; None if none is known."""
    whole = sum(phases.values())
    if not whole:
        return None
    name = max(phases, key=phases.__getitem__)
    return f"{name} {100 * phases[name] // whole}%"
