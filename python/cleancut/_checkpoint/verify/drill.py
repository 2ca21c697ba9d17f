"""A restore drill: all that a restart would read is read and decoded, and what was proven is noted.

The format of the note is in docs/FORMAT.md, *Proofs*.
"""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import islice
from typing import Any

from cleancut._brief import Brief
from cleancut._checkpoint.read.cut_info import other_provider
from cleancut._checkpoint.read.cut_reader import LoadedState, chain_bytes
from cleancut._checkpoint.read.history import History
from cleancut._checkpoint.read.root import Root
from cleancut._checkpoint.read.stored_cut import StoredCut
from cleancut._checkpoint.tables.batches import BATCH_ROWS, row_damaged
from cleancut._checkpoint.verify.spark_files import SparkFilesCheck
from cleancut._display.tables import TREND, rank
from cleancut._format.frame.identity import UNSAFE_ROW, Family
from cleancut._format.layout import StoreId, proof_name
from cleancut._unsafe_rows.column_cells import MisfitError
from cleancut._unsafe_rows.schema import struct_of

# Enough to see how often it is done.
_KEPT = 16
_DIGEST_BYTES = 8


@dataclass(frozen=True, repr=False)
class DrillInfo(Brief):
    """A cut that was proven to be restorable.

    Attributes:
        epoch: of the cut.
        proven: when all of it had been read, in UTC.
        stores: the number of state stores.
        rows: the number of rows of state.
        in_flight: the number of rows in flight.
        bytes: the size of the frames that were read.
        digest: of all rows, in whatever order and partition, as hexadecimal; two states with equal
            digests have the same rows.
        query_id: Spark's id of the query.
        generation: of the driver that wrote the cut.
    """

    epoch: int
    proven: datetime
    stores: int
    rows: int = field(metadata=TREND)
    in_flight: int
    bytes: int = field(metadata=TREND)
    digest: str = field(metadata=rank(1))
    query_id: str | None = field(default=None, metadata=rank(3))
    generation: int = field(default=0, metadata=rank(2))

    def to_dict(self) -> dict[str, Any]:
        """The same as a plain dictionary."""
        return asdict(self)


def drill(root: Root, at: int | str | None, *, note: bool) -> DrillInfo:
    """Proves a cut.

    Args:
        root: of the checkpoint.
        at: the epoch of the cut, or the name of a savepoint; None is the last.
        note: whether a proof is left in the checkpoint.

    Raises:
        RequestError: CLEANCUT_STATE_NOT_FOUND, there is no such cut, or its state is elsewhere.
        CorruptedError: what is wrong.
    """
    history = History(root)
    cut = history.named_cut(at)
    provider = other_provider(cut)
    if provider is not None:
        raise history.not_found("state that Cleancut keeps", f"state that {provider} keeps")
    chains = cut.chains
    tally = _Tally()
    for loaded in history.reader.states(cut, chains.values()):
        tally.add(loaded)
    if not isinstance(at, str) and cut.epoch == history.epochs[-1]:
        _check_sparks(root, cut, {of.operator for of in chains if not of.is_channel})
    found = DrillInfo(
        epoch=cut.epoch,
        proven=datetime.fromtimestamp(int(time.time() * 1000) / 1000, UTC),
        stores=sum(not of.is_channel for of in chains),
        rows=tally.rows,
        in_flight=tally.in_flight,
        bytes=sum(history.reader.sizes(cut).values())
        + sum(chain_bytes(chain) for of, chain in chains.items() if of.is_channel),
        digest=tally.digest.to_bytes(_DIGEST_BYTES, "big").hex(),
        query_id=cut.query_id,
        generation=cut.generation,
    )
    if note:
        _write(root, found)
    return found


def proofs(root: Root) -> Iterator[DrillInfo]:
    """What earlier drills have noted, by their epochs; a note that cannot be read is none."""
    for name in root.proofs():
        try:
            found = json.loads(root.objects.read(name))
            proven = datetime.fromtimestamp(found.pop("provenMs") / 1000, UTC)
            yield DrillInfo(**{_FIELDS[of]: value for of, value in found.items()}, proven=proven)
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            continue


_FIELDS: Mapping[str, str] = {
    "epoch": "epoch",
    "stores": "stores",
    "rows": "rows",
    "inFlight": "in_flight",
    "bytes": "bytes",
    "digest": "digest",
    "queryId": "query_id",
    "generation": "generation",
}


def _write(root: Root, found: DrillInfo) -> None:
    values = asdict(found)
    body: dict[str, Any] = {of: values[own] for of, own in _FIELDS.items()}
    body["provenMs"] = round(found.proven.timestamp() * 1000)
    name = proof_name(found.epoch, body["provenMs"])
    root.objects.create(name, json.dumps(body).encode())
    for old in root.proofs()[:-_KEPT]:
        root.objects.delete(old)


def _check_sparks(root: Root, cut: StoredCut, operators: set[int]) -> None:
    """Spark goes on from files of its own beside the last cut."""
    check = SparkFilesCheck(root, [cut], operators)
    check.run()
    for finding in check.findings.values():
        raise finding.error


class _Tally:
    """What was read.

    Attributes:
        rows: of states.
        in_flight: of channels.
        digest: of all rows.
    """

    def __init__(self) -> None:
        self.rows = self.in_flight = self.digest = 0

    def add(self, loaded: LoadedState) -> None:
        """Decodes the rows of a store.

        Raises:
            CorruptedError: CLEANCUT_ROW_CORRUPTED.
            RequestError: CLEANCUT_COLUMN_UNREADABLE.
        """
        for number, family in loaded.state.families.items():
            rows = loaded.state.rows[number]
            pairs = [(key, value) for key, values in rows.items() for value in values]
            _decode(loaded, family, pairs)
            if loaded.store.is_channel:
                self.in_flight += len(pairs)
            else:
                self.rows += len(pairs)
            self.digest ^= _digest(loaded.store, family, rows)


def _decode(loaded: LoadedState, family: Family, pairs: list[tuple[bytes, bytes]]) -> None:
    # Rows in Avro have been compared with their checksums, and are not decoded.
    if family.encoding != UNSAFE_ROW:
        return
    columns = struct_of(family.key_schema, "key"), struct_of(family.value_schema, "value")
    source = iter(pairs)
    try:
        while chunk := list(islice(source, BATCH_ROWS)):
            for column, cells in zip(columns, zip(*chunk, strict=True), strict=True):
                column.decode_rows(cells)
    except MisfitError as error:
        raise row_damaged(loaded.store, loaded.place, loaded.state.version, error) from error


def _digest(store: StoreId, family: Family, rows: Mapping[bytes, list[bytes]]) -> int:
    """The same whatever the order of keys; values of a list have theirs."""
    of = f"{store.operator}/{store.store}/{family.name}/".encode()
    found = 0
    for key, values in rows.items():
        hashed = blake2b(of + len(key).to_bytes(4, "big") + key, digest_size=_DIGEST_BYTES)
        for value in values:
            hashed.update(len(value).to_bytes(4, "big") + value)
        found ^= int.from_bytes(hashed.digest(), "big")
    return found
