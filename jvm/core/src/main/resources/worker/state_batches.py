"""Reads and writes the state of many keys of a `transformWithState` task with one message.

PySpark's client waits for the response of each state request, and a round trip costs more than the
access to the state store. In queries on Cleancut, Spark's state server has a value state with a
reserved name (`StateBatches` in the JVM), whose updates are requests for many keys:

- Writes are not waited for. They are sent together, before the next request that has a result. A
  failed write fails the task, as in PySpark.
- Reads that the function makes first for most keys are prefetched: they are sent for the next keys
  of the input in one message. Keys are processed one after the other and occur once in an epoch, so
  no write between the prefetch and the function changes a prefetched response. A write of the
  function to a state variable discards the variable's prefetched responses.

All other requests are PySpark's own, and follow the writes that came before them. The state server
answers each request once and in order.
"""

import io
import itertools
import pickle

from .state_clients import (
    DELETE_TIMER,
    LIST_GET,
    MAP_ENTRIES,
    MAP_KEYS,
    MAP_VALUES,
    REGISTER_TIMER,
    replace_clients,
)

# The reserved value state, as in `StateBatches`.
NAME = "$cleancut"
SCHEMA = (
    '{"type":"struct","fields":[{"name":"request","type":"binary","nullable":false,"metadata":{}}]}'
)
# Keys of one message: few at first, because their values may be large.
FIRST_KEYS, MAX_KEYS = 8, 1024
# Above this size of the responses, in bytes, the next message has fewer keys.
LARGE_RESPONSES = 512 << 10
# Writes that wait for the next message.
MAX_WRITES = 4096
MAX_WRITTEN_BYTES = 1 << 20

# Keys after which the prefetched reads are chosen again; the first choice comes earlier.
KEYS_PER_CHOICE = 32
KEYS_BEFORE_FIRST_CHOICE = 4

# Values of these types cannot change, and take few bytes each unless they are long.
_SMALL = frozenset({type(None), bool, int, float})
_TEXTS = frozenset({str, bytes})


class StateBatches:
    """The state of one task, until `close`.

    Args:
        client: PySpark's `StatefulProcessorApiClient`.
    """

    def __init__(self, client):
        from pyspark.sql.streaming.proto import StateMessage_pb2

        self.client = client
        self._messages = StateMessage_pb2
        self._plain = _PlainClient(client, StateMessage_pb2, before=self._send_writes)
        self._is_open = False
        # Rows with the conversions of PySpark, without its pickler.
        self._serialize = type(client)._serialize_to_bytes
        # The table of keys on the server, without the keys of the next message.
        self._table = 0
        self._added, self._writes, self._bytes = [], [], 0
        # The prefetched reads by position, and their responses for each key.
        self._reads, self._responses = {}, []
        self._first, self._limit = 0, FIRST_KEYS
        # The current key, its number in the table, and its prefetched responses.
        self._current, self._key, self._number, self._prefetched = None, None, None, None
        self._choice = PrefetchChoice()
        types = client.key_schema.simpleString()
        self._has_floats = "float" in types or "double" in types
        replaced = {
            "set_implicit_key": self._set_key,
            "register_timer": self._register_timer,
            "delete_timer": self._delete_timer,
        }
        vars(client).update(replaced)
        self._replaced = tuple(replaced)
        self._restore_clients = replace_clients(self)

    def close(self):
        """Restores PySpark's methods."""
        self._restore_clients()
        for name in self._replaced:
            vars(self.client).pop(name, None)
        self._plain.close()

    def prefetch(self, keys):
        """Sends the chosen reads for the next keys of the input.

        Args:
            keys: sequence of tuples, none of which has been processed.

        Returns:
            The number of keys that this covers, at least one.
        """
        reads = self._choice.reads
        self._reads = {read: position for position, read in enumerate(reads)}
        self._responses = []
        if not reads:
            return min(len(keys), KEYS_BEFORE_FIRST_CHOICE)
        keys = list(itertools.islice(keys, self._limit))
        schema = self.client.key_schema
        size = self._exchange([self.internal(schema, key) for key in keys], reads)
        if size > LARGE_RESPONSES:
            self._limit = max(1, self._limit // 2)
        elif len(keys) == self._limit:
            self._limit = min(2 * self._limit, MAX_KEYS)
        return len(self._responses)

    def end_groups(self):
        """Must be called after the last group."""
        self._responses = []

    def begin_group(self, key, number):
        """Announces the key of the next call of the function.

        Args:
            key: the object that the function receives.
            number: its position in the last prefetch.
        """
        self._current, self._first = key, number

    def internal(self, schema, row):
        """Converts a row as PySpark does, or pickles it if it could change until it is sent."""
        if (
            type(row) is tuple
            and not schema._needSerializeAnyField
            and _SMALL.issuperset(map(type, row))
        ):
            # PySpark's conversion returns an equal tuple.
            self._bytes += 8
            return row
        values = self._serialize(_Internal, schema, row)
        size = 8
        for value in values:
            kind = type(value)
            if kind in _TEXTS:
                size += len(value)
            elif kind not in _SMALL:
                pickled = self.client.pickleSer.dumps(values)
                self._bytes += len(pickled)
                return pickled
        self._bytes += size
        return values

    def write(self, operation, state, value):
        """Adds a write of the current key.

        Args:
            operation: number of the operation.
            state: name of the state variable.
            value: one or more rows of `internal`, or a time in milliseconds.
        """
        self._choice.written.add(state)
        if self._number is None:
            self._number = self._table + len(self._added)
            self._added.append(self.internal(self.client.key_schema, self._key))
        self._writes += (self._number, operation, state, value)
        if len(self._writes) >= 4 * MAX_WRITES or self._bytes >= MAX_WRITTEN_BYTES:
            self._send_writes()

    def read(self, operation, state, argument=None):
        """The prefetched response to a read of the current key, in a tuple; None if it has none.

        Args:
            operation: number of the operation.
            state: name of the state variable.
            argument: pickled argument.
        """
        read = (operation, state, argument)
        self._choice.has_read(read)
        position = self._reads.get(read)
        # A write discards the responses of its variable.
        if position is None or self._prefetched is None or state in self._choice.written:
            return None
        response = self._prefetched[position]
        # The rest of a list is read by PySpark's client.
        if response is None and operation in (LIST_GET, MAP_ENTRIES, MAP_KEYS, MAP_VALUES):
            self._choice.exclude(read)
            return None
        return (response,)

    def _set_key(self, key):
        """Replaces `set_implicit_key`."""
        self._choice.next_key()
        self._plain.set_key(key)
        self._key, self._number, self._prefetched = key, None, None
        if key is self._current and self._first < len(self._responses):
            self._number, self._current = self._first, None
            # Rows with a NaN in their key are separate groups of one key.
            if not self._has_floats or _equals_itself(key):
                self._prefetched = self._responses[self._first]

    def _register_timer(self, at):
        """Replaces `register_timer`."""
        # With the checks of PySpark's message.
        timer = self._messages.RegisterTimer(expiryTimestampMs=at)
        self.write(REGISTER_TIMER, "", timer.expiryTimestampMs)

    def _delete_timer(self, at):
        """Replaces `delete_timer`."""
        timer = self._messages.DeleteTimer(expiryTimestampMs=at)
        self.write(DELETE_TIMER, "", timer.expiryTimestampMs)

    def _send_writes(self):
        """Sends the writes, whose response is read later."""
        if self._writes:
            # Without a prefetch, the table would grow with each key.
            self._send(None if self._responses else [], [])

    def _exchange(self, keys, reads):
        self._send(keys, reads)
        self._plain.send(self._value_call(get=self._messages.Get()))
        responses = self._plain.receive().value
        if responses:
            (responses,) = self.client.pickleSer.loads(responses)
        stream = io.BytesIO(responses)
        while stream.tell() < len(responses):
            self._responses += pickle.load(stream)
        return len(responses)

    def _send(self, keys, reads):
        if not self._is_open:
            self._is_open = True
            m = self._messages
            state = m.StateCallCommand(stateName=NAME, schema=SCHEMA)
            call = m.StatefulProcessorCall(getValueState=state)
            self._plain.send(m.StateRequest(statefulProcessorCall=call))
        request = pickle.dumps((self._added, self._writes, keys, reads))
        update = self._messages.ValueStateUpdate(value=pickle.dumps((request,)))
        self._plain.send(self._value_call(valueStateUpdate=update))
        self._table = self._table + len(self._added) if keys is None else len(keys)
        self._added, self._writes, self._bytes = [], [], 0
        if keys is not None:
            self._number = None

    def _value_call(self, **method):
        m = self._messages
        call = m.ValueStateCall(stateName=NAME, **method)
        variable = m.StateVariableRequest(valueStateCall=call)
        return m.StateRequest(stateVariableRequest=variable)


def _equals_itself(value):
    if isinstance(value, (tuple, list)):
        return all(map(_equals_itself, value))
    if isinstance(value, dict):
        return all(map(_equals_itself, value.values()))
    return value == value


class _Internal:
    """Has no pickler, so `_serialize_to_bytes` returns the converted row."""

    class pickleSer:  # noqa: N801
        dumps = staticmethod(lambda row: row)


class _PlainClient:
    """Sends PySpark's own requests, after the writes and the key that they depend on.

    Args:
        client: PySpark's client, of which methods are replaced until `close`.
        messages: PySpark's module of messages.
        before: sends earlier writes.
    """

    def __init__(self, client, messages, before):
        self._client = client
        self._messages = messages
        self._before = before
        self._unanswered = 0
        # The current key is sent before the first request that may depend on it.
        self._key, self._is_key_sent = None, True
        replaced = {"_send_proto_message": self._send}
        for name in dir(client):
            if name.startswith("_receive_proto_message"):
                replaced[name] = self._receiver(getattr(client, name))
        vars(client).update(replaced)
        self._replaced = tuple(replaced)

    def close(self):
        """Restores the methods of the client."""
        for name in self._replaced:
            vars(self._client).pop(name, None)

    def set_key(self, key):
        """Changes the key of the next requests."""
        self._key, self._is_key_sent = key, False

    def send(self, message):
        """Sends a message, whose response is read later."""
        self._write(message.SerializeToString())
        self._unanswered += 1

    def receive(self):
        """The response to the last message."""
        self._unanswered -= 1
        self._settle()
        return self._response()

    def _send(self, message):
        """Replaces `_send_proto_message`."""
        self._before()
        if not self._is_key_sent:
            self._is_key_sent = True
            self._send_key()
        self._write(message)
        self._client.sockfile.flush()

    def _send_key(self):
        client, m = self._client, self._messages
        key = client._serialize_to_bytes(client.key_schema, self._key)
        request = m.ImplicitGroupingKeyRequest(setImplicitKey=m.SetImplicitKey(key=key))
        self.send(m.StateRequest(implicitGroupingKeyRequest=request))

    def _write(self, message):
        stream = self._client.sockfile
        stream.write(bytes(4) + len(message).to_bytes(4, "big"))
        stream.write(message)

    def _settle(self):
        """Reads the responses of earlier messages."""
        self._client.sockfile.flush()
        while self._unanswered:
            self._unanswered -= 1
            self._response()

    def _response(self):
        stream = self._client.sockfile
        length = stream.read(4)
        if len(length) < 4:
            raise EOFError("Spark's state server closed the connection")
        body = stream.read(int.from_bytes(length, "big"))
        response = self._messages.StateResponse.FromString(body)
        if response.statusCode != 0:
            from pyspark.errors import PySparkRuntimeError

            raise PySparkRuntimeError(f"Error in a state request: {response.errorMessage}")
        return response

    def _receiver(self, receive):
        def received():
            self._settle()
            return receive()

        return received


class PrefetchChoice:
    """Chooses the reads to prefetch: those that most of the recent keys made before a write.

    Attributes:
        reads: the chosen reads, as tuples of operation, state name and argument.
        written: the state variables that the function has written for the current key.
    """

    def __init__(self):
        self.reads = []
        self.written = set()
        self._excluded = set()
        self._counts = {}
        self._of_key = set()
        self._keys = 0
        self._limit = KEYS_BEFORE_FIRST_CHOICE

    def has_read(self, read):
        """Records a read of the current key."""
        if read[1] not in self.written and read not in self._of_key:
            self._of_key.add(read)
            self._counts[read] = self._counts.get(read, 0) + 1

    def exclude(self, read):
        """Excludes a read from now on."""
        self._excluded.add(read)
        self.reads = [other for other in self.reads if other != read]

    def next_key(self):
        """Ends the current key."""
        self._of_key.clear()
        self.written.clear()
        if self._keys >= self._limit:
            self.reads = [
                read
                for read, count in self._counts.items()
                if 2 * count >= self._keys and read not in self._excluded
            ]
            self._counts, self._keys, self._limit = {}, 0, KEYS_PER_CHOICE
        self._keys += 1
