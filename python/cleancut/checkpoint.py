"""Looks into the state of a query's checkpoint, without a JVM and without changing anything."""

import os
import sys
from collections.abc import Iterable

import pyarrow as pa

from cleancut import verify as _verify
from cleancut._layout import StoreId
from cleancut._listing import Listing
from cleancut._root import Root, open_root
from cleancut._store import StoreReader
from cleancut._table import table_of
from cleancut.display import ranges
from cleancut.errors import CleancutError, error_of
from cleancut.infos import (
    FamilyInfo,
    FrameInfo,
    InfoList,
    StoreInfo,
    family_infos,
    frame_info,
    store_info,
)


class Checkpoint:
    """The state of one query, as its checkpoint holds it now.

    Every call lists the checkpoint anew, so that a running query can be watched. State is read at a
    version: epoch *e* turns version *e* into version *e+1*. A version whose frames are there need
    not be one that Spark has committed: the highest may belong to an epoch that still runs.

    Files that are damaged, missing or exchanged raise DamagedError, which names the file and the
    version; nothing is skipped. Errors of the file system itself are OSError.
    """

    def __init__(self, location: str | os.PathLike[str]) -> None:
        """Finds the checkpoint.

        Args:
            location: a query's `checkpointLocation`: a local path or a URI that
                `pyarrow.fs.FileSystem.from_uri` takes.

        Raises:
            RequestError: CLEANCUT_CHECKPOINT_NOT_FOUND or CLEANCUT_FORMAT_UNKNOWN.
        """
        self._root: Root = open_root(location)

    @property
    def location(self) -> str:
        """The checkpoint location as it was given."""
        return self._root.location

    def stores(self) -> InfoList[StoreInfo]:
        """All state stores that have at least one frame, by operator, partition and name."""
        return InfoList(store_info(listing) for listing in self._root.listings().values())

    def versions(self, operator: int, partition: int, store: str = "default") -> tuple[int, ...]:
        """The versions of one store that have a frame, ascending.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND.
        """
        return self._listing(StoreId(operator, partition, store)).versions

    def frames(
        self,
        operator: int,
        partition: int,
        store: str = "default",
        *,
        version: int | None = None,
    ) -> InfoList[FrameInfo]:
        """Reads the frames of one store, whole, and describes them.

        Args:
            operator: Spark's operator id.
            partition: Spark's partition id.
            store: Spark's name of the store.
            version: only the frames of this version, which may be several: a base beside the delta,
                and those of attempts that were run again.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND or CLEANCUT_FORMAT_UNKNOWN.
            DamagedError: a frame is damaged or misplaced.
        """
        listing = self._listing(StoreId(operator, partition, store))
        if version is not None:
            self._require(listing.versions, version, "version", str(listing.store))
        reader = StoreReader(self._root.filesystem, listing)
        names = sorted(name for name in listing.sizes if version in (None, name.version))
        return InfoList(frame_info(reader.frame(name)) for name in names)

    def state(
        self,
        operator: int,
        *,
        store: str = "default",
        version: int | None = None,
        partition: int | None = None,
        family: str = "default",
    ) -> pa.Table:
        """The rows of one operator's state.

        Args:
            operator: Spark's operator id.
            store: Spark's name of the store; a stream-stream join has several.
            version: the state version; None is the greatest that all partitions have, also where
                only one partition is read, so that partitions read one by one fit together.
            partition: only this partition; None is all.
            family: the column family; `families` lists them.

        Returns:
            A table with the struct columns `key` and `value`, typed by the schemas that are stored
            with the rows, and the int32 column `partition`. A key with a list of values (a
            ListState) has a row for each of them, in their order. Timestamps are in UTC, to the
            microsecond. Of several fields of one name, all but the first have a number behind it.
            The metadata of the table's schema tell operator, store and version.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND, CLEANCUT_COLUMN_UNREADABLE,
                CLEANCUT_FORMAT_UNKNOWN or, on a big-endian machine, CLEANCUT_PLATFORM_UNSUPPORTED.
            DamagedError: a frame that the version needs is damaged, misplaced or missing.
        """
        if sys.byteorder != "little":
            raise error_of("CLEANCUT_PLATFORM_UNSUPPORTED", detail="it is big-endian")
        listings = self._partitions(operator, store)
        if partition is not None:
            self._require(listings, partition, "partition", f"operator={operator} store={store}")
        version = self._common_version(listings, version)
        chosen = listings if partition is None else {partition: listings[partition]}
        tables = [self._table(listing, version, family) for listing in chosen.values()]
        metadata = {"cleancut.operator": str(operator), "cleancut.store": store}
        metadata["cleancut.version"] = str(version)
        return pa.concat_tables(tables).replace_schema_metadata(metadata)

    def families(
        self, operator: int, *, store: str = "default", version: int | None = None
    ) -> InfoList[FamilyInfo]:
        """The column families of one operator's state, and how many keys each has.

        Args:
            operator: Spark's operator id.
            store: Spark's name of the store.
            version: the state version; None is the greatest that all partitions have.

        Raises:
            RequestError: CLEANCUT_STATE_NOT_FOUND or CLEANCUT_FORMAT_UNKNOWN.
            DamagedError: a frame that the version needs is damaged, misplaced or missing.
        """
        listings = self._partitions(operator, store)
        version = self._common_version(listings, version)
        readers = (StoreReader(self._root.filesystem, found) for found in listings.values())
        return InfoList(family_infos(reader.load(version) for reader in readers))

    def verify(self) -> _verify.VerifyReport:
        """Reads every frame, and puts every version together that can be loaded.

        Checked are the checksums, the identity of each frame against its name, the chain from each
        version to its base, the counts in the trailers, and each base against the deltas that lead
        to it. Damage is collected in the report, never raised. The state of one partition at a time
        is held in memory.
        """
        return _verify.verify(self._root)

    def __repr__(self) -> str:
        return f"Checkpoint({self.location!r})"

    def _repr_html_(self) -> str:
        return self.stores()._repr_html_()

    def _listing(self, store: StoreId) -> Listing:
        listings = self._root.listings()
        if store not in listings:
            available = "; ".join(str(found) for found in listings) or "no state yet"
            raise self._not_found(f"state store {store}", available)
        return listings[store]

    def _partitions(self, operator: int, store: str) -> dict[int, Listing]:
        """The listings of one operator's stores of one name, by partition."""
        listings = self._root.listings()
        found = {
            store_id.partition: listing
            for store_id, listing in listings.items()
            if (store_id.operator, store_id.store) == (operator, store)
        }
        if not found:
            stores = sorted({(store_id.operator, store_id.store) for store_id in listings})
            available = "; ".join(f"operator={number} store={name}" for number, name in stores)
            wanted = f"state store operator={operator} store={store}"
            raise self._not_found(wanted, available or "no state yet")
        return found

    def _common_version(self, listings: dict[int, Listing], version: int | None) -> int:
        if version is not None:
            for listing in listings.values():
                self._require(listing.versions, version, "version", str(listing.store))
            return version
        common = set.intersection(*(set(listing.versions) for listing in listings.values()))
        if not common:
            available = (f"{found.store} {ranges(found.versions)}" for found in listings.values())
            raise self._not_found("version that all partitions have", "; ".join(available))
        return max(common)

    def _require(self, available: Iterable[int], wanted: int, what: str, where: str) -> None:
        numbers = sorted(available)
        if wanted not in numbers:
            raise self._not_found(f"{what} {wanted} of {where}", f"{what} {ranges(numbers)}")

    def _not_found(self, wanted: str, available: str) -> CleancutError:
        return error_of(
            "CLEANCUT_STATE_NOT_FOUND", location=self.location, wanted=wanted, available=available
        )

    def _table(self, listing: Listing, version: int, family: str) -> pa.Table:
        state = StoreReader(self._root.filesystem, listing).load(version)
        for found in state.families.values():
            if found.name == family:
                return table_of(state, found, listing)
        names = ", ".join(sorted(found.name for found in state.families.values()))
        raise self._not_found(f"column family {family} in {listing.store}", f"families {names}")
