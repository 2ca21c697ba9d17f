"""Whatever a query has been through, a root leads to the chains that a cut of version 1 holds."""

from cleancut._checkpoint.read.cut_reader import CutReader
from cleancut._format.layout import StoreId
from cleancut._format.placed import Chain
from tests.support.draws import draws
from tests.unit.drawn_histories import CHANNEL, drawn
from tests.unit.memory_objects import MemoryObjects

HISTORIES = draws(160)


def test_roots_lead_to_the_chains_that_cuts_hold() -> None:
    seen: set[tuple[str, bool]] = set()
    for seed in range(HISTORIES):
        history = drawn(seed)
        for epoch in {history.epochs - 1, history.chance.randrange(history.epochs)}:
            whole = MemoryObjects(history.objects | history.cut(epoch))
            expected = CutReader(whole).cut(epoch)
            objects = MemoryObjects(history.objects | history.root(epoch))
            cut = CutReader(objects).cut(epoch)
            assert cut.root is not None
            assert cut.chains == expected.chains, (seed, epoch)
            assert list(cut.chains) == sorted(cut.chains)
            assert cut.store_count == len(cut.chains) == expected.store_count
            seen.add(("pages", bool(cut.root.pages)))
            seen.add(("chains", any(len(chain) > 1 for chain in cut.chains.values())))
            seen.add(("channels", any(store.store == CHANNEL for store in cut.chains)))
            for store, chain in one_by_one(objects, epoch, list(cut.chains)).items():
                assert chain == expected.chains[store], (seed, epoch, store)
            for operator, name in {(of.operator, of.store) for of in cut.chains}:
                again = CutReader(objects).cut(epoch).chains_of(operator, name)
                assert again == expected.chains_of(operator, name), (seed, epoch)
    assert len(seen) == 6


def one_by_one(
    objects: MemoryObjects, epoch: int, stores: list[StoreId]
) -> dict[StoreId, Chain | None]:
    """Chains by readers that have read nothing else, each no more than it needs."""
    found = {}
    for store in stores:
        cut = CutReader(objects).cut(epoch)
        objects.read_names.clear()
        found[store] = cut.chain(store)
        assert len([name for name in objects.read_names if name.startswith("pages/")]) <= 1
        assert len(objects.read_names) == len(set(objects.read_names))
    return found
