"""State of many keys in one message of a Python worker, compared with PySpark's client."""

import pickle
import random
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming import value_state_client
from pyspark.sql.streaming.proto import StateMessage_pb2 as messages
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient
from pyspark.sql.types import ArrayType, DoubleType, LongType, StringType, StructType

from tests.support.draws import draws
from tests.support.worker_modules import worker_module

ROW = StructType().add("n", LongType()).add("words", ArrayType(StringType()))
NUMBER = StructType().add("n", LongType())
KEY = StructType().add("k", StringType()).add("d", DoubleType())
PAGE = 3
# As in `StateVariables`, where it is 100.
LISTED = 5


@pytest.fixture(scope="module")
def batches() -> ModuleType:
    return worker_module("state_batches")


class Server:
    """Answers as Spark's state server with `StateBatches` does, from dictionaries."""

    def __init__(self) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        self.waits = self.requests = self.longest_table = 0
        self.state: dict[tuple[Any, str], Any] = {}
        self.max_keys = 1 << 30
        self._key: Any = None
        self._table: list[Any] = []
        self._responses = b""
        self._iterators: dict[str, list[Any]] = {}
        threading.Thread(target=self._serve, args=(listening,), daemon=True).start()

    def _serve(self, listening: socket.socket) -> None:
        # The client may end while a response is sent.
        with suppress(OSError), listening, listening.accept()[0] as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            received = b""
            while data := connection.recv(1 << 20):
                self.waits += 1
                received += data
                while len(received) >= 8:
                    end = 8 + struct.unpack("!i", received[4:8])[0]
                    if len(received) < end:
                        break
                    request = messages.StateRequest.FromString(received[8:end])
                    received = received[end:]
                    self.requests += 1
                    answer = self._answer(request).SerializeToString()
                    connection.sendall(struct.pack("!i", len(answer)) + answer)

    def _answer(self, request: Any) -> Any:
        kind = request.WhichOneof("method")
        if kind == "implicitGroupingKeyRequest":
            self._key = _row(request.implicitGroupingKeyRequest.setImplicitKey.key)
            # As Spark's server, which then starts iterators again.
            self._iterators.clear()
        elif kind == "statefulProcessorCall":
            timer = request.statefulProcessorCall.timerStateCall
            if timer.WhichOneof("method") == "register":
                self._write(7, "", timer.register.expiryTimestampMs)
        else:
            variable = request.stateVariableRequest
            call = getattr(variable, variable.WhichOneof("method"))
            name = call.WhichOneof("method")
            if call.stateName == "$cleancut":
                return self._batch(name, getattr(call, name))
            return self._plain(call.stateName, name, getattr(call, name))
        return messages.StateResponse()

    def _batch(self, name: str, call: Any) -> Any:
        if name == "get":
            return messages.StateResponse(value=pickle.dumps((self._responses,)))
        current = self._key
        added, writes, keys, reads = pickle.loads(_row(call.value)[0])
        self._table += map(_row, added)
        for at in range(0, len(writes), 4):
            number, operation, state, value = writes[at : at + 4]
            self._key = self._table[number]
            if state == "broken":
                return messages.StateResponse(statusCode=1, errorMessage="the value is refused")
            self._write(operation, state, value)
        self.longest_table = max(self.longest_table, len(self._table))
        if keys is not None:
            self._table = list(map(_row, keys))
            self._responses = b""
            for key in self._table[: self.max_keys] if reads else []:
                self._key = key
                answers = tuple(self._read(*read) for read in reads)
                self._responses += pickle.dumps([answers])
        self._key = current
        return messages.StateResponse()

    def _plain(self, state: str, name: str, call: Any) -> Any:
        writes: dict[str, Callable[[], tuple[int, Any]]] = {
            "valueStateUpdate": lambda: (0, call.value),
            "listStatePut": lambda: (1, list(call.value)),
            "appendValue": lambda: (2, call.value),
            "appendList": lambda: (3, list(call.value)),
            "updateValue": lambda: (4, (call.userKey, call.value)),
            "removeKey": lambda: (5, call.userKey),
            "clear": lambda: (6, None),
        }
        if name in writes:
            self._write(writes[name]()[0], state, writes[name]()[1])
            return messages.StateResponse()
        if name in ("exists", "containsKey"):
            held = self._read(0, state) if name == "exists" else self._read(4, state, call.userKey)
            return messages.StateResponse(statusCode=0 if held else 2)
        if name in ("get", "getValue"):
            value = self._read(1, state) if name == "get" else self._read(3, state, call.userKey)
            return messages.StateResponse(value=b"" if value is None else pickle.dumps(value))
        number = {"listStateGet": 2, "iterator": 5, "keys": 6, "values": 7}[name]
        rest = self._iterators.setdefault(call.iteratorId, self._elements(number, state))
        page = [rest.pop(0) for _ in range(min(PAGE, len(rest)))]
        kinds: dict[str, Any] = {
            "listStateGet": messages.StateResponseWithListGet,
            "iterator": messages.StateResponseWithMapIterator,
        }
        kind = kinds.get(name, messages.StateResponseWithMapKeysOrValues)
        if not page:
            return kind(statusCode=2)
        if number == 5:
            pairs = [
                messages.KeyAndValuePair(key=pickle.dumps(key), value=pickle.dumps(value))
                for key, value in page
            ]
            return kind(kvPair=pairs, requireNextFetch=bool(rest))
        return kind(value=[pickle.dumps(row) for row in page], requireNextFetch=bool(rest))

    def _write(self, operation: int, state: str, value: Any) -> None:
        at = (repr(self._key), state)
        if operation == 0:
            self.state[at] = _row(value)
        elif operation in (1, 2, 3):
            rows = [_row(value)] if operation == 2 else list(map(_row, value))
            self.state[at] = ([] if operation == 1 else self.state.get(at, [])) + rows
        elif operation == 4:
            self.state[at] = self.state.get(at, {}) | {
                repr(_row(value[0])): tuple(map(_row, value))
            }
        elif operation == 5:
            entries = self.state.get(at, {})
            self.state[at] = {k: v for k, v in entries.items() if k != repr(_row(value))}
        elif operation == 6:
            self.state.pop(at, None)
        else:
            self.state[at] = [*self.state.get(at, []), value]

    def _read(self, operation: int, state: str, argument: Any = None) -> Any:
        held = self.state.get((repr(self._key), state))
        if operation == 0:
            return bool(held)
        if operation == 1:
            return held
        if operation in (3, 4):
            entry = (held or {}).get(repr(_row(argument)))
            return entry is not None if operation == 4 else entry and entry[1]
        elements = self._elements(operation, state)
        return elements if len(elements) <= LISTED else None

    def _elements(self, operation: int, state: str) -> list[Any]:
        held = self.state.get((repr(self._key), state)) or []
        if operation == 2:
            return list(held)
        entries = list(dict(held).values())
        return entries if operation == 5 else [entry[operation - 6] for entry in entries]


def _row(value: Any) -> Any:
    return pickle.loads(value) if isinstance(value, bytes) else value


def _client(max_keys: int = 1 << 30) -> tuple[Server, StatefulProcessorApiClient]:
    server = Server()
    server.max_keys = max_keys
    return server, StatefulProcessorApiClient(server.port, KEY)


class Variables:
    """A variable of each kind."""

    def __init__(self, client: StatefulProcessorApiClient) -> None:
        handle = StatefulProcessorHandle(client)
        self.value = handle.getValueState("v", ROW)
        self.other = handle.getValueState("w", NUMBER)
        self.broken = handle.getValueState("broken", NUMBER)
        self.list = handle.getListState("l", ROW)
        self.map = handle.getMapState("m", NUMBER, ROW)
        self.register = handle.registerTimer

    def call(self, chosen: random.Random, name: str) -> Any:
        """One call of the state API, with arguments at random."""
        n = chosen.randrange(100)
        words = ["a"] * (n % 3)
        calls: dict[str, Callable[[], Any]] = {
            "get": self.value.get,
            "exists": self.value.exists,
            "other": self.other.get,
            "update": lambda: self.value.update((n, words)),
            "update other": lambda: self.other.update((n,)),
            "clear": self.value.clear,
            "list": lambda: list(self.list.get()),
            "list with writes": lambda: self._list_with_writes(n),
            "list exists": self.list.exists,
            "append": lambda: self.list.appendValue((n, words)),
            "append all": lambda: self.list.appendList([(n, words), (n, None)]),
            "put": lambda: self.list.put([(i, words) for i in range(n % 9 + 1)]),
            "map": lambda: self.map.getValue((n % 3,)),
            "contains": lambda: self.map.containsKey((0,)),
            "change": lambda: self.map.updateValue((n % 7,), (n, words)),
            "remove": lambda: self.map.removeKey((n % 3,)),
            "items": lambda: list(self.map.iterator()),
            "keys": lambda: list(self.map.keys()),
            "values": lambda: list(self.map.values()),
            "map exists": self.map.exists,
            "timer": lambda: self.register(n),
        }
        result = calls[name]()
        # The written rows may change afterwards.
        words.append("changed")
        return result

    def _list_with_writes(self, n: int) -> list[Any]:
        seen = []
        for row in self.list.get():
            seen.append(row)
            self.other.update((n,))
        return seen


CALLS = (
    *("get", "exists", "other", "update", "update other", "clear", "list", "list with writes"),
    *("list exists", "append", "append all", "put", "map", "contains", "change", "remove"),
    *("items", "keys", "values", "map exists", "timer"),
)


class Groups:
    """Announces keys as the loop over groups does.

    Args:
        together: `StateBatches`, or None for PySpark's client.
        keys: in the order of the input.
    """

    def __init__(self, together: Any, keys: Sequence[Any]) -> None:
        self._together = together
        self._keys = list(keys)
        self._begun = self._requested = 0

    def begin(self, key: Any) -> None:
        """Begins the next group."""
        if self._together is None:
            return
        if self._begun == self._requested:
            self._begun, self._requested = 0, self._together.prefetch(self._keys)
            assert self._requested >= 1
        self._keys.pop(0)
        self._together.begin_group(key, self._begun)
        self._begun += 1


def _run(chosen: random.Random, together: Any, client: Any) -> Any:
    """What functions see, for some keys in some epochs."""
    seen: list[tuple[Any, ...]] = []
    variables = Variables(client)
    often = chosen.choices(CALLS, k=3)
    for epoch in range(3):
        keys = [(f"k{i}", 1.5) for i in sorted(chosen.sample(range(200), 120))]
        # Each row with a NaN in its key is a group of the same key.
        nan = float("nan")
        keys += [("nan", nan) for nan in (nan, nan * 1)]
        groups = Groups(together, keys)
        for key in keys:
            groups.begin(key)
            # A function that is not called leaves its group.
            if chosen.random() < 0.1:
                continue
            client.set_implicit_key(key)
            calls = often if chosen.random() < 0.8 else []
            for call in (*calls, *chosen.choices(CALLS, k=chosen.randrange(4))):
                seen.append((epoch, key[0], call, variables.call(chosen, call)))
        # Keys that are not announced, as those of timers.
        if together is not None and epoch > 0:
            together.end_groups()
        for key in keys[:20]:
            client.set_implicit_key(key)
            for call in chosen.choices(CALLS, k=3):
                seen.append((epoch, "timer", variables.call(chosen, call)))
    return seen


@pytest.mark.parametrize("seed", range(draws(80)))
def test_functions_see_the_same_state_as_with_pysparks_client(
    batches: ModuleType, seed: int
) -> None:
    plain, expected_client = _client()
    expected = _run(random.Random(seed), None, expected_client)
    server, client = _client(max_keys=random.Random(seed).choice((1, 5, 1 << 30)))
    together = batches.StateBatches(client)
    assert _run(random.Random(seed), together, client) == expected
    # A result comes after all writes.
    client.set_implicit_key(("end", 0.0))
    assert Variables(client).value.get() is None
    together.close()
    assert server.state == plain.state
    assert server.waits < plain.waits


def test_one_message_for_many_keys(batches: ModuleType) -> None:
    server, client = _client()
    together = batches.StateBatches(client)
    variables = Variables(client)
    keys = [(f"k{i}", 0.0) for i in range(6400)]
    groups = Groups(together, keys)
    before = server.requests
    for i, key in enumerate(keys):
        groups.begin(key)
        client.set_implicit_key(key)
        assert variables.value.get() is None
        variables.value.update((i, None))
    client.set_implicit_key(("end", 0.0))
    assert variables.value.get() is None
    together.close()
    assert len(server.state) == 6400
    # Eight keys before the choice; then 8, 16 … 1,024 keys with two requests.
    assert server.requests - before <= 8 * 3 + 2 * (8 + 6400 // 1024) + 4
    assert client.handle_state is not None


def test_keys_without_a_response_are_requested_again(batches: ModuleType) -> None:
    server, client = _client(max_keys=5)
    together = batches.StateBatches(client)
    variables = Variables(client)
    keys = [(f"k{i}", 0.0) for i in range(500)]
    groups = Groups(together, keys)
    before = server.requests
    for key in keys:
        groups.begin(key)
        client.set_implicit_key(key)
        assert variables.value.get() is None
    together.close()
    assert server.requests - before <= 8 * 2 + 2 * 500 / 5 + 4


def test_keys_that_only_write_do_not_accumulate(batches: ModuleType) -> None:
    server, client = _client()
    together = batches.StateBatches(client)
    variables = Variables(client)
    keys = [(f"k{i}", 0.0) for i in range(20_000)]
    groups = Groups(together, keys)
    for key in keys:
        groups.begin(key)
        client.set_implicit_key(key)
        variables.other.update((1,))
    groups = Groups(together, keys[:100])
    for key in keys[:100]:
        groups.begin(key)
        client.set_implicit_key(key)
        assert variables.other.get() == (1,)
    together.end_groups()
    for key in keys:
        client.set_implicit_key((f"timer of {key}", 0.0))
        variables.other.update((1,))
    client.set_implicit_key(("end", 0.0))
    assert variables.other.get() is None
    together.close()
    assert len(server.state) == 40_000
    assert server.longest_table <= batches.MAX_WRITES + batches.MAX_KEYS


def test_a_write_that_failed_is_reported_before_the_next_result(batches: ModuleType) -> None:
    _, client = _client()
    together = batches.StateBatches(client)
    variables = Variables(client)
    client.set_implicit_key(("a", 0.0))
    variables.broken.update((1,))
    with pytest.raises(PySparkRuntimeError, match="the value is refused"):
        variables.value.get()
    together.close()


def test_a_value_that_cannot_be_converted_fails_in_its_call(batches: ModuleType) -> None:
    _, client = _client()
    together = batches.StateBatches(client)
    variables = Variables(client)
    client.set_implicit_key(("a", 0.0))
    with pytest.raises(TypeError):
        variables.other.update(None)  # type: ignore[arg-type]
    with pytest.raises((pickle.PicklingError, AttributeError)):
        variables.other.update((lambda: 1,))
    with pytest.raises(TypeError):
        variables.register("soon")  # type: ignore[arg-type]
    together.close()


def test_other_clients_of_the_process_keep_pysparks_methods(batches: ModuleType) -> None:
    _, client = _client()
    _, other = _client()
    plain = value_state_client.ValueStateClient
    together = batches.StateBatches(client)
    assert type(Variables(other).value._valueStateClient) is plain
    assert type(Variables(client).value._valueStateClient) is not plain
    together.close()
    assert type(Variables(client).value._valueStateClient) is plain
