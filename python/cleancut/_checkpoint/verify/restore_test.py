"""Restore tests: they read and decode everything that a restart from a cut would read.

The format of the record is in docs/FORMAT.md, *Restore test*.
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

# Number of retained records.
_KEPT = 16
_DIGEST_BYTES = 8


@dataclass(frozen=True, repr=False)
class RestoreTest(Brief):
    """The result of a restore test.

    Attributes:
        epoch: epoch of the cut.
        tested: end of the test, in UTC.
        stores: number of state stores.
        rows: number of rows of state.
        in_flight_rows: number of in-flight rows.
        bytes: size of the frames that were read.
        digest: digest of all rows, independent of their order and partition, in hexadecimal. States
            with equal digests have the same rows.
        query_id: Spark's query id.
        generation: generation of the driver that wrote the cut.
    """

    epoch: int
    tested: datetime
    stores: int
    rows: int = field(metadata=TREND)
    in_flight_rows: int
    bytes: int = field(metadata=TREND)
    digest: str = field(metadata=rank(1))
    query_id: str | None = field(default=None, metadata=rank(3))
    generation: int = field(default=0, metadata=rank(2))

    def to_dict(self) -> dict[str, Any]:
        """The result as a plain dictionary."""
        return asdict(self)


def run_restore_test(root: Root, at: int | str | None, *, read_only: bool) -> RestoreTest:
    """Tests whether a cut can be restored.

    Args:
        root: root of the checkpoint.
        at: the epoch of the cut, or the name of a savepoint; None is the last.
        read_only: write no record into the checkpoint.

    Raises:
        RequestError: CLEANCUT_STATE_NOT_FOUND, the cut does not exist, or its state is of another
            provider.
        CorruptedError: the first problem.
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
        _check_sparks(root, cut, {store.operator for store in chains if not store.is_channel})
    result = RestoreTest(
        epoch=cut.epoch,
        tested=datetime.fromtimestamp(int(time.time() * 1000) / 1000, UTC),
        stores=sum(not store.is_channel for store in chains),
        rows=tally.rows,
        in_flight_rows=tally.in_flight_rows,
        bytes=sum(history.reader.sizes(cut).values())
        + sum(chain_bytes(chain) for store, chain in chains.items() if store.is_channel),
        digest=tally.digest.to_bytes(_DIGEST_BYTES, "big").hex(),
        query_id=cut.query_id,
        generation=cut.generation,
    )
    if not read_only:
        _write(root, result)
    return result


def restore_tests(root: Root) -> Iterator[RestoreTest]:
    """The recorded restore tests, ordered by epoch; unreadable records are skipped."""
    for name in root.proofs():
        try:
            record = json.loads(root.objects.read(name))
            tested = datetime.fromtimestamp(record.pop("provenMs") / 1000, UTC)
            values = {_FIELDS[name]: value for name, value in record.items()}
            yield RestoreTest(**values, tested=tested)
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            continue


_FIELDS: Mapping[str, str] = {
    "epoch": "epoch",
    "stores": "stores",
    "rows": "rows",
    "inFlight": "in_flight_rows",
    "bytes": "bytes",
    "digest": "digest",
    "queryId": "query_id",
    "generation": "generation",
}


def _write(root: Root, result: RestoreTest) -> None:
    values = asdict(result)
    body: dict[str, Any] = {
        stored_name: values[attribute] for stored_name, attribute in _FIELDS.items()
    }
    body["provenMs"] = round(result.tested.timestamp() * 1000)
    name = proof_name(result.epoch, body["provenMs"])
    root.objects.create(name, json.dumps(body).encode())
    for old in root.proofs()[:-_KEPT]:
        root.objects.delete(old)


def _check_sparks(root: Root, cut: StoredCut, operators: set[int]) -> None:
    """Verifies the files of Spark from which it restarts after the last cut."""
    check = SparkFilesCheck(root, [cut], operators)
    check.run()
    for finding in check.findings.values():
        raise finding.error


class _Tally:
    """Counts of what was read.

    Attributes:
        rows: number of rows of state.
        in_flight_rows: number of in-flight rows.
        digest: digest of all rows.
    """

    def __init__(self) -> None:
        self.rows = self.in_flight_rows = self.digest = 0

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
                self.in_flight_rows += len(pairs)
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
    """A digest that is independent of the order of keys; values of a list keep their order."""
    prefix = f"{store.operator}/{store.store}/{family.name}/".encode()
    digest = 0
    for key, values in rows.items():
        hashed = blake2b(prefix + len(key).to_bytes(4, "big") + key, digest_size=_DIGEST_BYTES)
        for value in values:
            hashed.update(len(value).to_bytes(4, "big") + value)
        digest ^= int.from_bytes(hashed.digest(), "big")
    return digest
