"""Published epochs that are hidden when a query goes back, and shown again if it does so anew."""

from collections.abc import Callable, Collection, Iterable

from cleancut._format.fields import typed
from cleancut.sinks._core.query_side import Act, Acted, counts, kept_until
from cleancut.sinks._files.directory import Records
from cleancut.sinks._files.manifest import Manifest, decoded, encoded
from cleancut.sinks._files.names import (
    ACTS,
    EPOCHS,
    TAKEN_BACK,
    act_name,
    manifest_epochs,
    manifest_name,
    taken_back,
    taken_back_name,
)
from cleancut.sinks._files.retention import expired_until
from cleancut.sinks._files.view import look


def follow(records: Records, side: Acted) -> int:
    """Has readers see what counts for the query after the acts on it, and nothing else.

    The sink notes by what act it went back: to tell, when another act goes back to before that
    one, that what was hidden then counts again.

    Returns:
        The last expired epoch; -1 if none has expired.

    Raises:
        DamagedError: CLEANCUT_SINK_DAMAGED.
    """
    expired = expired_until(records)
    shown = {of for of in manifest_epochs(records.names(EPOCHS)) if of > expired}
    back = [of.epoch for of in taken_back(records.names(TAKEN_BACK))]
    hidden = {epoch for epoch in back if epoch > expired}
    noted = manifest_epochs(records.names(ACTS))
    known = {*shown, *noted, *hidden}
    acts = side.acts(max(known)) if known else ()
    bound = kept_until(acts)
    if bound is None:
        return expired
    former = acts_of(records, noted)
    ours = {of for of in {*shown, *hidden} if of <= bound}
    ours = {of for of in ours if counts(of, bound, former)}
    again = ours & hidden
    # Those of a way that the query had gone back from, to which it now comes back, are not its own.
    stale = {of for of in shown if of <= bound} - ours
    if not again and not stale and bound >= max(known):
        return expired
    hide(records, min({bound + 1, *stale}) - 1, kept=ours)
    if again:
        show(records, again.__contains__)
    # Last, so that what a crash leaves is done again.
    note(records, Act(acts[-1].epoch, bound))
    return expired


def note(records: Records, act: Act) -> None:
    """Notes an act that the sink went back by."""
    records.create(act_name(act.epoch), encoded({"source": act.source}))


def acts_of(records: Records, noted: Iterable[int]) -> list[Act]:
    """The acts that the sink has noted, by their epochs.

    Raises:
        DamagedError: CLEANCUT_SINK_DAMAGED.
    """

    def act(epoch: int) -> Act:
        name = act_name(epoch)
        body = records.read(name) or b""
        return Act(epoch, decoded(body, records.at(name), lambda of: typed(of, "source", int)))

    return [act(epoch) for epoch in noted]


def hide(records: Records, after: int, *, kept: Collection[int] = ()) -> list[Manifest]:
    """Has readers not see what was published after an epoch; gives what they saw of that.

    The last goes first, so that readers see all epochs up to some one at any moment.

    Args:
        records: of the sink.
        after: the epoch.
        kept: those after it that they see all the same.

    Raises:
        RetryableError: CLEANCUT_SINK_CHANGED.
        DamagedError: CLEANCUT_SINK_DAMAGED, nothing was changed.
    """
    manifests = look(records, expired_until(records), after=after)
    for manifest in reversed(manifests):
        if manifest.epoch in kept:
            continue
        records.create(taken_back_name(manifest.attempt), manifest.encode())
        records.delete(manifest_name(manifest.epoch))
    return manifests


def show(records: Records, counts: Callable[[int], bool]) -> list[Manifest]:
    """Has readers see again what was hidden, but for epochs that were published again meanwhile.

    Args:
        records: of the sink.
        counts: which epochs.

    Returns:
        What they see again.

    Raises:
        RetryableError: CLEANCUT_SINK_CHANGED.
        DamagedError: CLEANCUT_SINK_DAMAGED.
    """
    expired = expired_until(records)
    shown = []
    for attempt in taken_back(records.names(TAKEN_BACK)):
        name = taken_back_name(attempt)
        body = records.read(name) if attempt.epoch > expired and counts(attempt.epoch) else None
        if body is None:
            continue
        Manifest.decode(body, records.at(name), attempt.epoch)
        was_made = records.create(manifest_name(attempt.epoch), body)
        if was_made or records.read(manifest_name(attempt.epoch)) == body:
            records.delete(name)
            shown.append(attempt.epoch)
    return look(records, expired, shown, missing_ok=True)


def forget(records: Records) -> int:
    """Gives up what was taken back; how many epochs these were.

    Raises:
        RetryableError: CLEANCUT_SINK_CHANGED.
        DamagedError: CLEANCUT_SINK_DAMAGED.
    """
    expired = expired_until(records)
    found = taken_back(records.names(TAKEN_BACK))
    for attempt in found:
        records.delete(taken_back_name(attempt))
    return sum(of.epoch > expired for of in found)
