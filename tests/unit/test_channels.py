"""The records of a channel and its readers, without Spark: columns, locations, positions,
corruption.
"""

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructType

from cleancut import Channel, CorruptedError, RequestError
from cleancut._storage.access import S3Access
from cleancut.dataflow import iterate
from cleancut.dataflow._channel.channel import misfit
from cleancut.dataflow._channel.readers import registered
from cleancut.sinks._epoch_log.manifest import Link, Manifest
from cleancut.sinks._epoch_log.names import Attempt
from cleancut.sinks._epoch_log.records import PlainRecords
from tests.unit.sink_records import BATCH, MANIFEST, TOKEN

ROWS = StructType().add("k", LongType()).add("s", StringType())


@pytest.mark.parametrize("after", [None, Attempt(6, TOKEN)])
def test_a_manifest_of_a_channel_names_its_predecessor(after: Attempt | None) -> None:
    linked = dataclasses.replace(MANIFEST, link=Link(after))
    assert Manifest.decode(linked.encode(), "/m", MANIFEST.epoch) == linked
    assert b'"after"' not in MANIFEST.encode()
    assert Manifest.decode(MANIFEST.encode(), "/m", MANIFEST.epoch).link is None


def test_columns_may_be_added_but_not_removed_or_changed() -> None:
    assert misfit(ROWS, []) is None
    assert misfit(StructType([*ROWS.fields]).add("more", LongType()), [ROWS]) is None
    misfits = misfit(StructType().add("k", LongType()), [ROWS])
    assert misfits == "they have no column s, which is string"
    changed = StructType().add("k", StringType()).add("s", StringType())
    assert misfit(changed, [ROWS]) == "their column k is string, and was bigint"
    taken = StructType([*ROWS.fields]).add("cleancut_epoch", LongType())
    assert "cleancut_epoch is reserved" in str(misfit(taken, []))


def test_rows_that_do_not_fit_are_refused_by_their_epoch() -> None:
    channel = Channel("/channel", schema=ROWS)
    last = dataclasses.replace(MANIFEST, schema=ROWS.json())
    channel._check(ROWS, last, BATCH)
    with pytest.raises(RequestError) as refused:
        channel._check(StructType().add("k", LongType()), last, BATCH)
    assert refused.value.error_id == "CLEANCUT_CHANNEL_SCHEMA_MISMATCH"
    assert refused.value.params["epoch"] == str(BATCH.epoch)
    with pytest.raises(TypeError, match="has no columns"):
        Channel("/channel", schema=LongType())._check(ROWS, None, BATCH)  # type: ignore[arg-type]


def test_an_unreadable_position_is_corrupted(tmp_path: Path) -> None:
    (tmp_path / "_readers").mkdir()
    records = PlainRecords(str(tmp_path), S3Access())
    assert registered(records) == []
    (tmp_path / "_readers" / "q-0.json").write_text('{"formatVersion":1,"queryId":7}')
    with pytest.raises(CorruptedError, match="_readers"):
        registered(records)


def test_a_reader_whose_checkpoint_is_gone_is_named(tmp_path: Path) -> None:
    (tmp_path / "_readers").mkdir()
    note = '{"formatVersion":1,"queryId":"q","source":"0","checkpoint":"%s"}'
    (tmp_path / "_readers" / "q-0.json").write_text(note % (tmp_path / "nowhere"))
    channel = Channel(tmp_path)
    with pytest.raises(RequestError) as lost:
        channel.readers()
    assert lost.value.error_id == "CLEANCUT_CHANNEL_READER_LOST"
    assert lost.value.params["query"] == "q"
    assert channel.remove_reader("q")
    assert channel.readers() == []


def test_a_loop_without_a_schema_is_refused() -> None:
    head: Any = SimpleNamespace()
    with pytest.raises(RequestError) as refused:
        iterate(head, lambda _: _, channel=Channel("/c"), feedback=lambda _: _)
    assert refused.value.error_id == "CLEANCUT_CHANNEL_EMPTY"
