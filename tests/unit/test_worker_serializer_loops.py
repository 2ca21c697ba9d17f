"""The replacement of loops in PySpark's serializers, on a serializer of the test."""

import io
import logging
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.serializers import ArrowStreamSerializer

from tests.support.worker_modules import worker_module

BATCH = pa.RecordBatch.from_pydict({"n": [1, 2, 3]})


class Serializer(ArrowStreamSerializer):
    """Has the two parts of a loop over groups."""

    def load_stream(self, stream: Any) -> Iterator[Any]:
        yield from super().load_stream(stream)

    def dump_stream(self, iterator: Iterable[Any], stream: Any) -> None:
        stream.write(f"plain {[batch.num_rows for batch in iterator]}".encode())


def _mapper() -> Callable[[Any], Any]:
    def wrapped(batch: Any) -> Any:
        return batch

    f: Callable[[Any], Any] = lambda batch: wrapped(batch)  # noqa: E731

    def mapper(batch: Any) -> Any:
        return f(batch)

    return mapper


def _dumped(loops: ModuleType) -> bytes:
    serializer, source, out = Serializer(), io.BytesIO(), io.BytesIO()
    with pa.RecordBatchStreamWriter(source, BATCH.schema) as writer:
        writer.write_batch(BATCH)
    source.seek(0)
    results = map(_mapper(), serializer.load_stream(source))
    loops.replacing_loop(Serializer.dump_stream)(serializer, results, out)
    return out.getvalue()


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = worker_module("serializer_loops")
    monkeypatch.setattr(module, "LOOPS", {})
    monkeypatch.setattr(worker_module("pyspark_code"), "_reported", set())
    return module


def test_an_unknown_loop_runs_unchanged_and_is_logged_once(
    loops: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="cleancut"):
        assert _dumped(loops) == _dumped(loops) == b"plain [3]"
    (record,) = caplog.records
    assert "PySpark's loop over groups (Serializer, " in record.getMessage()


def test_a_known_loop_is_replaced_and_its_batches_start_the_stream(
    loops: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="cleancut"):
        _dumped(loops)
    hashed = caplog.records[0].args[1]  # type: ignore[index]
    received = []

    def loop(serializer: Any, mapper: Any, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            received.append((type(serializer).__name__, mapper.__name__, batch.num_rows))
            yield batch.slice(1)

    loops.LOOPS[hashed] = loop
    dumped = _dumped(loops)
    assert received == [("Serializer", "mapper", 3)]
    # START_ARROW_STREAM of PySpark, -6, comes before the batches.
    assert int.from_bytes(dumped[:4], "big", signed=True) == -6
    assert pa.ipc.open_stream(dumped[4:]).read_all().to_pydict() == {"n": [2, 3]}


def test_results_that_are_no_map_run_unchanged(loops: ModuleType) -> None:
    out = io.BytesIO()
    loops.replacing_loop(Serializer.dump_stream)(Serializer(), iter([BATCH]), out)
    assert out.getvalue() == b"plain [3]"


def test_the_hash_depends_on_each_function_that_is_replaced(loops: ModuleType) -> None:
    code = worker_module("pyspark_code")
    serializer, mapper = Serializer(), _mapper()
    groups = serializer.load_stream(io.BytesIO())
    codes = loops._codes(serializer, mapper, groups)
    names = {code.co_name for code in codes}
    assert names == {"mapper", "<lambda>", "wrapped", "load_stream", "dump_stream"}
    hashes = {code.digest([*codes[:i], *codes[i + 1 :]]) for i in range(len(codes))}
    assert len(hashes) == len(codes)
    assert code.digest(codes) not in hashes
