"""Offline operations as methods of a checkpoint."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from cleancut._checkpoint.read.root import Root
from cleancut._storage.access import S3Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cleancut._operations.offline import Plan, Provider


class Operations:
    """The functions of `cleancut` that change a checkpoint, with its location.

    They run in a Spark session, which reaches the location with its own settings. A session is
    imported at the first call, because reading a checkpoint needs none.
    """

    _root: Root

    def convert(
        self,
        *,
        provider: "Provider" = "cleancut",
        session: "SparkSession | None" = None,
        file_sink: str | None = None,
    ) -> "Plan":
        """`cleancut.convert` of this location."""
        from cleancut._operations.offline import convert

        return convert(self._root.location, provider=provider, session=session, file_sink=file_sink)

    def rescale(
        self,
        partitions: int,
        *,
        session: "SparkSession | None" = None,
        file_sink: str | None = None,
        rewrite: bool = False,
    ) -> "Plan":
        """`cleancut.rescale` of this location."""
        from cleancut._operations.offline import rescale

        return rescale(
            self._root.location, partitions, session=session, file_sink=file_sink, rewrite=rewrite
        )

    def rollback(
        self,
        to: int | str | datetime | None = None,
        *,
        undo: bool = False,
        session: "SparkSession | None" = None,
        file_sink: str | None = None,
        rewrite: bool = False,
        allow_missing_input: bool = False,
    ) -> "Plan":
        """`cleancut.rollback` of this location."""
        from cleancut._operations.offline import rollback

        return rollback(
            self._root.location,
            to,
            undo=undo,
            session=session,
            file_sink=file_sink,
            rewrite=rewrite,
            allow_missing_input=allow_missing_input,
        )

    def clone(
        self,
        target: str,
        at: int | str | datetime | None = None,
        *,
        session: "SparkSession | None" = None,
        same_query: bool = False,
        cuts: bool | None = None,
        provider: "Provider | None" = None,
        partitions: int | None = None,
        target_access: S3Options | None = None,
        allow_missing_input: bool = False,
    ) -> "Plan":
        """`cleancut.clone` of this location."""
        from cleancut._operations.offline import clone

        return clone(
            self._root.location,
            target,
            at,
            session=session,
            same_query=same_query,
            cuts=cuts,
            provider=provider,
            partitions=partitions,
            target_access=target_access,
            allow_missing_input=allow_missing_input,
        )

    def edit(
        self,
        operator: int,
        change: "Callable[[DataFrame], DataFrame]",
        *,
        store: str = "default",
        family: str = "default",
        side: Literal["left", "right"] | None = None,
        session: "SparkSession | None" = None,
        file_sink: str | None = None,
    ) -> "Plan":
        """`cleancut.edit` of this location."""
        from cleancut._operations.offline import edit

        return edit(
            self._root.location,
            operator,
            change,
            store=store,
            family=family,
            side=side,
            session=session,
            file_sink=file_sink,
        )
