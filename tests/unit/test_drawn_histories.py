"""Whatever a query has been through, a cut leads to the chains of its stores."""

from collections.abc import Sequence

from cleancut._checkpoint.read.cut_reader import CutReader
from cleancut._format.layout import StoreId
from cleancut._format.placed import Chain, placed_frame
from tests.support.draws import draws
from tests.unit.drawn_histories import CHANNEL, drawn
from tests.unit.memory_objects import MemoryObjects
from tests.vectors.cut_writer import Stored

HISTORIES = draws(160)


def test_cuts_lead_to_the_chains_of_their_stores() -> None:
    seen: set[tuple[str, bool]] = set()
    for seed in range(HISTORIES):
        history = drawn(seed)
        for epoch in {history.epochs - 1, history.chance.randrange(history.epochs)}:
            expected = dict(map(placed, history.all_chains(epoch)))
            objects = MemoryObjects(history.objects | history.cut(epoch))
            cut = CutReader(objects).cut(epoch)
            assert cut.chains == expected, (seed, epoch)
            assert list(cut.chains) == sorted(cut.chains)
            assert cut.store_count == len(cut.chains)
            seen.add(("pages", bool(cut.paged.pages)))
            seen.add(("chains", any(len(chain) > 1 for chain in cut.chains.values())))
            seen.add(("channels", any(store.store == CHANNEL for store in cut.chains)))
            for store, chain in one_by_one(objects, epoch, list(cut.chains)).items():
                assert chain == expected[store], (seed, epoch, store)
            for operator, name in {(of.operator, of.store) for of in cut.chains}:
                again = CutReader(objects).cut(epoch).chains_of(operator, name)
                assert again == {
                    of.partition: chain
                    for of, chain in expected.items()
                    if (of.operator, of.store) == (operator, name)
                }, (seed, epoch)
    assert len(seen) == 6


def placed(chain: Sequence[Stored]) -> tuple[StoreId, Chain]:
    """The chain of a store as a reader has it."""
    store = StoreId(*chain[0].store)
    return store, tuple(
        placed_frame(
            store,
            (of.entry["version"], of.entry["id"], of.entry["kind"]),
            of.segment,
            (of.entry["offset"], of.entry["length"], of.entry["crc"]),
        )
        for of in chain
    )


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
