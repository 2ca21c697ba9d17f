"""After any history, a cut leads to the chains of its stores."""

from collections.abc import Sequence

from cleancut._checkpoint.read.cut_reader import CutReader
from cleancut._format.chains import Chain, placed_frame
from cleancut._format.layout import StoreId
from tests.support.draws import draws
from tests.unit.memory_objects import MemoryObjects
from tests.unit.random_histories import CHANNEL, random_history
from tests.vectors.cut_writer import Stored

HISTORIES = draws(160)


def test_cuts_lead_to_the_chains_of_their_stores() -> None:
    seen: set[tuple[str, bool]] = set()
    for seed in range(HISTORIES):
        history = random_history(seed)
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
            for operator, name in {
                (store_key.operator, store_key.store) for store_key in cut.chains
            }:
                again = CutReader(objects).cut(epoch).chains_of(operator, name)
                assert again == {
                    store_key.partition: chain
                    for store_key, chain in expected.items()
                    if (store_key.operator, store_key.store) == (operator, name)
                }, (seed, epoch)
    assert len(seen) == 6


def placed(chain: Sequence[Stored]) -> tuple[StoreId, Chain]:
    """Returns the chain of a store as a reader has it."""
    store = StoreId(*chain[0].store)
    return store, tuple(
        placed_frame(
            store,
            (frame.entry["version"], frame.entry["id"], frame.entry["kind"]),
            frame.segment,
            (frame.entry["offset"], frame.entry["length"], frame.entry["crc"]),
        )
        for frame in chain
    )


def one_by_one(
    objects: MemoryObjects, epoch: int, stores: list[StoreId]
) -> dict[StoreId, Chain | None]:
    """Reads each chain with a new reader, which reads no more objects than the chain needs."""
    chains = {}
    for store in stores:
        cut = CutReader(objects).cut(epoch)
        objects.read_names.clear()
        chains[store] = cut.chain(store)
        assert len([name for name in objects.read_names if name.startswith("pages/")]) <= 1
        assert len(objects.read_names) == len(set(objects.read_names))
    return chains
