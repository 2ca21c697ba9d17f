"""State requests of a Python worker, sent together, compared with PySpark's client."""

import random
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.list_state_client import ListStateClient, ListStateIterator
from pyspark.sql.streaming.map_state_client import MapStateClient
from pyspark.sql.streaming.proto import StateMessage_pb2 as messages
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient
from pyspark.sql.streaming.value_state_client import ValueStateClient
from pyspark.sql.types import LongType, StringType, StructType

from tests.support.draws import draws
from tests.support.worker_modules import worker_module

ROW = StructType().add("n", LongType())
KEY = StructType().add("k", StringType())
PAGE = 3


@pytest.fixture(scope="module")
def requests() -> ModuleType:
    return worker_module("state_requests")


class Server:
    """Answers as Spark's state server does, from dictionaries."""

    def __init__(self) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        self.round_trips = self.requests = 0
        self.state: dict[tuple[bytes, str], Any] = {}
        self._key = b""
        self._iterators: dict[str, list[bytes]] = {}
        threading.Thread(target=self._serve, args=(listening,), daemon=True).start()

    def _serve(self, listening: socket.socket) -> None:
        # The client may end while a response is sent.
        with suppress(OSError), listening, listening.accept()[0] as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            received = b""
            while data := connection.recv(1 << 20):
                self.round_trips += 1
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
        if request.WhichOneof("method") == "implicitGroupingKeyRequest":
            self._key = request.implicitGroupingKeyRequest.setImplicitKey.key
            return messages.StateResponse()
        variable = request.stateVariableRequest
        kind = variable.WhichOneof("method")
        call = getattr(variable, kind)
        name = call.WhichOneof("method")
        answers = {
            "valueStateCall": self._answer_value,
            "listStateCall": self._answer_list,
            "mapStateCall": self._answer_map,
        }
        return answers[kind]((self._key, call.stateName), name, getattr(call, name))

    def _answer_value(self, at: tuple[bytes, str], name: str, call: Any) -> Any:
        if name == "valueStateUpdate":
            if at[1] == "broken":
                return messages.StateResponse(statusCode=1, errorMessage="the value is refused")
            self.state[at] = call.value
        elif name == "clear":
            self.state.pop(at, None)
        elif name == "exists":
            return messages.StateResponse(statusCode=0 if at in self.state else 2)
        else:
            return messages.StateResponse(value=self.state.get(at, b""))
        return messages.StateResponse()

    def _answer_list(self, at: tuple[bytes, str], name: str, call: Any) -> Any:
        values = self.state.setdefault(at, [])
        if name == "listStateGet":
            rest = self._iterators.setdefault(call.iteratorId, list(values))
            page = [rest.pop(0) for _ in range(min(PAGE, len(rest)))]
            if not page:
                return messages.StateResponseWithListGet(statusCode=2)
            return messages.StateResponseWithListGet(value=page, requireNextFetch=bool(rest))
        if name in ("listStatePut", "clear"):
            values.clear()
        if name != "clear":
            values.extend([call.value] if name == "appendValue" else call.value)
        return messages.StateResponse()

    def _answer_map(self, at: tuple[bytes, str], name: str, call: Any) -> Any:
        values = self.state.setdefault(at, {})
        if name == "updateValue":
            values[call.userKey] = call.value
        elif name == "removeKey":
            values.pop(call.userKey, None)
        elif name == "containsKey":
            return messages.StateResponse(statusCode=0 if call.userKey in values else 2)
        elif name == "getValue":
            return messages.StateResponse(value=values.get(call.userKey, b""))
        return messages.StateResponse()


def _client() -> tuple[Server, StatefulProcessorApiClient]:
    server = Server()
    return server, StatefulProcessorApiClient(server.port, KEY)


def _call(client: StatefulProcessorApiClient, chosen: random.Random, name: str) -> Any:
    """One call of the state API, with arguments at random."""
    value, lists = ValueStateClient(client, ROW), ListStateClient(client, ROW)
    maps = MapStateClient(client, ROW, ROW)
    n = chosen.randrange(100)
    calls: dict[str, Callable[[], Any]] = {
        "get": lambda: value.get("v"),
        "exists": lambda: value.exists("v"),
        "other": lambda: value.get("w"),
        "update": lambda: value.update("v", (n,)),
        "clear": lambda: value.clear("v"),
        "list": lambda: list(ListStateIterator(lists, "l")),
        "append": lambda: lists.append_value("l", (n,)),
        "put": lambda: lists.put("l", [(i,) for i in range(n % 5 + 1)]),
        "map": lambda: maps.get_value("m", (n % 3,)),
        "contains": lambda: maps.contains_key("m", (0,)),
        "change": lambda: maps.update_value("m", (n % 3,), (n,)),
        "remove": lambda: maps.remove_key("m", (n % 3,)),
    }
    return calls[name]()


CALLS = (
    *("get", "exists", "other", "update", "clear", "list", "append", "put"),
    *("map", "contains", "change", "remove"),
)


def _run(chosen: random.Random, prefetch: Callable[[list[Any]], None] | None, client: Any) -> Any:
    """What functions see, for some keys in some epochs."""
    seen = []
    often = chosen.choices(CALLS, k=3)
    for _ in range(3):
        keys = [(f"k{i}",) for i in sorted(chosen.sample(range(200), 120))]
        for i, key in enumerate(keys):
            if prefetch is not None and i % 64 == 0:
                prefetch(keys[i : i + 64])
            client.set_implicit_key(key)
            calls = often if chosen.random() < 0.8 else []
            for call in (*calls, *chosen.choices(CALLS, k=chosen.randrange(4))):
                seen.append((key, call, _call(client, chosen, call)))
    return seen


@pytest.mark.parametrize("seed", range(draws(80)))
def test_functions_see_the_same_state_as_with_pysparks_client(
    requests: ModuleType, seed: int
) -> None:
    plain, expected_client = _client()
    server, client = _client()
    expected = _run(random.Random(seed), None, expected_client)
    together = requests.StateRequests(client)
    assert _run(random.Random(seed), together.prefetch, client) == expected
    # A result comes after all writes.
    client.set_implicit_key(("end",))
    assert ValueStateClient(client, ROW).get("v") is None
    together.close()
    for (key, name), value in plain.state.items():
        assert server.state.get((key, name), type(value)()) == value
    assert server.round_trips < plain.round_trips


def test_one_wait_for_many_keys(requests: ModuleType) -> None:
    server, client = _client()
    together = requests.StateRequests(client)
    keys = [(f"k{i}",) for i in range(640)]
    for i, key in enumerate(keys):
        if i % 64 == 0:
            together.prefetch(keys[i : i + 64])
        client.set_implicit_key(key)
        value = ValueStateClient(client, ROW)
        assert value.get("v") is None
        value.update("v", (i,))
    together.close()
    waits = 64 + 2 * 640 / 32
    assert server.round_trips < waits
    assert client.handle_state is not None


def test_a_write_that_failed_is_reported_before_the_next_result(requests: ModuleType) -> None:
    _, client = _client()
    requests.StateRequests(client)
    client.set_implicit_key(("a",))
    ValueStateClient(client, ROW).update("broken", (1,))
    with pytest.raises(PySparkRuntimeError, match="the value is refused"):
        ValueStateClient(client, ROW).get("v")


def test_keys_that_differ_from_themselves_are_not_prefetched(requests: ModuleType) -> None:
    sent: list[bytes] = []
    stream = SimpleNamespace(write=sent.append, flush=lambda: None, read=lambda n: b"\0" * n)
    client = SimpleNamespace(
        sockfile=stream, key_schema=KEY, _serialize_to_bytes=lambda _, key: repr(key).encode()
    )
    together = requests.StateRequests(client)
    together._choice.reads = [("v", "get", b"get")]
    together.prefetch([(float("nan"),), ([1],), (("a", float("nan")),)])
    assert sent == []
    together.prefetch([(1.5,)])
    assert len(sent) == 4
