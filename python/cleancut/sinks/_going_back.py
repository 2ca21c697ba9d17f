"""Published epochs that are hidden when a query goes back, and shown again if it does so anew."""

from collections.abc import Iterable, Sequence

from cleancut._format.fields import typed
from cleancut.sinks._directory import Records
from cleancut.sinks._manifest import Manifest, decoded, encoded, read_manifest
from cleancut.sinks._names import (
    ACTS,
    EPOCHS,
    TAKEN_BACK,
    Attempt,
    act_name,
    manifest_epochs,
    manifest_name,
    taken_back,
    taken_back_name,
)
from cleancut.sinks._query_side import Act, QuerySide, counts, kept_until


def follow(records: Records, side: QuerySide) -> None:
    """Has readers see what counts for the query after the acts on it, and nothing else.

    The sink notes by what act it went back: to tell, when another act goes back to before that
    one, that what was hidden then counts again.

    Raises:
        DamagedError: CLEANCUT_SINK_DAMAGED.
    """
    epochs = manifest_epochs(records.names(EPOCHS))
    hidden = taken_back(records.names(TAKEN_BACK))
    noted = manifest_epochs(records.names(ACTS))
    known = [*epochs, *noted, *(attempt.epoch for attempt in hidden)]
    acts = side.acts(max(known)) if known else ()
    bound = kept_until(acts)
    if bound is None:
        return
    found = (read_manifest(records, epoch) for epoch in epochs if epoch > bound)
    hide(records, [manifest for manifest in found if manifest is not None])
    former = acts_of(records, noted)
    again = [of for of in hidden if of.epoch <= bound and counts(of.epoch, bound, former)]
    show(records, again)
    if again or bound < max(known):
        # Last, so that what a crash leaves is done again.
        note(records, Act(acts[-1].epoch, bound))


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


def hide(records: Records, manifests: Sequence[Manifest]) -> Sequence[Manifest]:
    """Has readers not see some epochs, the last ones that there are; they are given in their order.

    The last goes first, so that readers see all epochs up to some one at any moment.
    """
    for manifest in reversed(manifests):
        records.create(taken_back_name(manifest.attempt), manifest.encode())
        records.delete(manifest_name(manifest.epoch))
    return manifests


def show(records: Records, attempts: Iterable[Attempt]) -> list[Manifest]:
    """Has readers see again what was hidden, but for epochs that were published again meanwhile.

    Returns:
        What they see again.
    """
    shown = []
    for attempt in attempts:
        name = taken_back_name(attempt)
        body = records.read(name)
        if body is None:
            continue
        manifest = Manifest.decode(body, records.at(name), attempt.epoch)
        was_made = records.create(manifest_name(attempt.epoch), body)
        if was_made or records.read(manifest_name(attempt.epoch)) == body:
            records.delete(name)
            shown.append(manifest)
    return shown
