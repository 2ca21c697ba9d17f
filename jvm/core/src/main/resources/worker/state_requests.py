"""Sends the state requests of a `transformWithState` function with few waits for responses.

PySpark's client waits for the response of each request, and a round trip costs more than the access
to the state store. Spark's state server (`TransformWithStateInPySparkStateServer`) answers each
request once and in order, so a client may send further requests before it reads a response:

- Writes, whose response is only a status, are not waited for. Their responses are read before the
  next response that has a result. A failed write fails the task, as in PySpark.
- Reads that the function makes first for most keys are prefetched: they are sent for the next keys
  of the input in one round trip. Keys are processed one after the other and occur once in an epoch,
  so no request between the prefetch and the function changes a prefetched response. A write of the
  function to a state variable discards the variable's prefetched responses.

Requests have the same bytes as PySpark's, except for the iterator ids of lists.
"""

import datetime
import decimal
import io
import struct

# Spark's server may block while it writes a response that is not read, and does not read requests
# meanwhile. So the requests in transit must fit into the buffers of a socket, or their responses.
MAX_UNANSWERED_WRITES = 1000
MAX_PREFETCHED_REQUESTS = 64
MAX_PREFETCHED_REQUEST_BYTES = 64 << 10
# Larger values make no round trip worth saving, and 64 of them take at most 1 MiB.
MAX_PREFETCHED_RESPONSE_BYTES = 16 << 10

# Keys after which the prefetched reads are chosen again; the first choice comes earlier.
KEYS_PER_CHOICE = 32
KEYS_BEFORE_FIRST_CHOICE = 4

OK, NO_VALUE = 0, 2
WRITES = frozenset(
    {
        "valueStateUpdate",
        "listStatePut",
        "appendValue",
        "appendList",
        "updateValue",
        "removeKey",
        "clear",
    }
)
LIST_GET = "listStateGet"
# These requests contain a random iterator id, and their iterators continue on the server.
ITERATORS = frozenset({"iterator", "keys", "values"})
TIMERS = "\0timers"

# Equal values of these types have equal representations. Sequences may contain a NaN.
SCALARS = (bool, int, str, bytes, decimal.Decimal, datetime.date)

_header = struct.Struct("!ii")
_length = struct.Struct("!i")


class StateRequests:
    """The requests of one task. Replaces methods of PySpark's client until `close`.

    Args:
        client: PySpark's `StatefulProcessorApiClient`.
    """

    def __init__(self, client):
        from pyspark.sql.streaming.proto import StateMessage_pb2

        self._messages = StateMessage_pb2
        self._client = client
        self._stream = client.sockfile
        self._unanswered = 0
        # The response of the last request, if it is known without a wait.
        self._response = None
        # The current key, whose request is sent before the first request that depends on it.
        self._key_request = None
        self._is_key_sent = False
        self._prefetched = {}
        self._responses = {}
        self._choice = PrefetchChoice()
        self._iterators = 0
        self._replace()

    def _replace(self):
        replaced = {"_send_proto_message": self._send, "set_implicit_key": self._set_key}
        for name in dir(self._client):
            if name.startswith("_receive_proto_message"):
                replaced[name] = self._receiver(getattr(self._client, name))
        self._replaced = tuple(replaced)
        vars(self._client).update(replaced)

    def close(self):
        """Restores the methods of the client."""
        for name in self._replaced:
            vars(self._client).pop(name, None)

    def prefetch(self, keys):
        """Sends the chosen reads for the next keys of the input.

        Args:
            keys: tuples, distinct, none of which has been processed.
        """
        reads = self._choice.reads
        self._prefetched.clear()
        if not reads:
            return
        requests_per_key = 1 + len(reads)
        chunk, size = [], 0
        for key in keys:
            if not all(isinstance(value, SCALARS) or _is_number(value) for value in key):
                continue
            requests = [self._request_of(key), *(self._bytes_of(read) for read in reads)]
            size += sum(map(len, requests))
            if chunk and (
                (len(chunk) + 1) * requests_per_key > MAX_PREFETCHED_REQUESTS
                or size > MAX_PREFETCHED_REQUEST_BYTES
            ):
                self._exchange(chunk, reads)
                chunk, size = [], sum(map(len, requests))
            chunk.append((key, requests))
        if chunk:
            self._exchange(chunk, reads)

    def _exchange(self, chunk, reads):
        self._settle()
        for _, requests in chunk:
            for request in requests:
                self._write(request)
        self._stream.flush()
        for key, requests in chunk:
            self._check(self._read())
            responses = {}
            for read in reads:
                response = self._read()
                if len(response) > MAX_PREFETCHED_RESPONSE_BYTES:
                    self._choice.exclude(read)
                elif self._is_usable(read, response):
                    responses[read] = response
            self._prefetched[key] = (requests[0], responses)

    def _is_usable(self, read, response):
        _, operation, _ = read
        if operation != LIST_GET:
            self._check(response)
            return True
        parsed = self._messages.StateResponseWithListGet.FromString(response)
        # The rest of a long list belongs to the iterator of this request.
        if parsed.requireNextFetch:
            self._choice.exclude(read)
        return not parsed.requireNextFetch

    def _bytes_of(self, read):
        state, operation, request = read
        if operation != LIST_GET:
            return request
        self._iterators += 1
        m = self._messages
        get = m.ListStateGet(iteratorId=f"cleancut-{self._iterators}")
        call = m.ListStateCall(stateName=state, listStateGet=get)
        variable = m.StateVariableRequest(listStateCall=call)
        return m.StateRequest(stateVariableRequest=variable).SerializeToString()

    def _set_key(self, key):
        """Replaces `set_implicit_key`."""
        self._choice.next_key()
        try:
            request, self._responses = self._prefetched.pop(key, None) or (None, {})
        except TypeError:
            # A key with a struct is not hashable.
            request, self._responses = None, {}
        self._key_request = request or self._request_of(key)
        self._is_key_sent = False

    def _request_of(self, key):
        m = self._messages
        encoded = self._client._serialize_to_bytes(self._client.key_schema, key)
        request = m.ImplicitGroupingKeyRequest(setImplicitKey=m.SetImplicitKey(key=encoded))
        return m.StateRequest(implicitGroupingKeyRequest=request).SerializeToString()

    def _send(self, message):
        """Replaces `_send_proto_message`."""
        read = self._classify(message)
        if read is None:
            self._send_now(message)
            return
        state, operation, _ = read
        if operation in WRITES:
            self._choice.written(state)
            for key in [key for key in self._responses if key[0] == state]:
                del self._responses[key]
            self._send_later(message)
            return
        if operation not in ITERATORS:
            self._choice.has_read(read)
            self._response = self._responses.get(read)
            if self._response is not None:
                return
        self._send_now(message)

    def _classify(self, message):
        """Returns state name, operation and identifying bytes of a request that uses the key."""
        request = self._messages.StateRequest.FromString(message)
        kind = request.WhichOneof("method")
        if kind == "stateVariableRequest":
            variable = request.stateVariableRequest
            call = getattr(variable, variable.WhichOneof("method"))
            operation = call.WhichOneof("method")
            return call.stateName, operation, b"" if operation == LIST_GET else message
        if kind == "statefulProcessorCall":
            call = request.statefulProcessorCall
            if call.WhichOneof("method") == "timerStateCall":
                operation = call.timerStateCall.WhichOneof("method")
                return TIMERS, "iterator" if operation == "list" else "clear", message
        if kind == "implicitGroupingKeyRequest":
            self._key_request = None
        return None

    def _send_now(self, message):
        self._response = None
        self._send_key()
        self._write(message)
        self._stream.flush()

    def _send_later(self, message):
        self._send_key()
        self._write(message)
        self._unanswered += 1
        self._response = b""
        if self._unanswered >= MAX_UNANSWERED_WRITES:
            self._settle()

    def _send_key(self):
        if self._key_request is not None and not self._is_key_sent:
            self._write(self._key_request)
            self._unanswered += 1
            self._is_key_sent = True

    def _write(self, message):
        self._stream.write(_header.pack(0, len(message)))
        self._stream.write(message)

    def _read(self):
        length = self._stream.read(4)
        if len(length) < 4:
            raise EOFError("Spark's state server closed the connection")
        return self._stream.read(_length.unpack(length)[0])

    def _settle(self):
        """Reads the responses of writes."""
        if self._unanswered:
            self._stream.flush()
            while self._unanswered:
                self._unanswered -= 1
                self._check(self._read(), is_write=True)

    def _check(self, response, is_write=False):
        # An empty message has the default status, which is OK.
        if not response:
            return
        parsed = self._messages.StateResponse.FromString(response)
        if parsed.statusCode != OK and (is_write or parsed.statusCode != NO_VALUE):
            from pyspark.errors import PySparkRuntimeError

            raise PySparkRuntimeError(f"Error in a state request: {parsed.errorMessage}")

    def _receiver(self, receive):
        def received():
            response, self._response = self._response, None
            if response is None:
                self._settle()
                return receive()
            # PySpark's own code decodes a response.
            self._client.sockfile = io.BytesIO(_length.pack(len(response)) + response)
            try:
                return receive()
            finally:
                self._client.sockfile = self._stream

        return received


def _is_number(value):
    # A NaN differs from itself.
    return isinstance(value, float) and value == value


class PrefetchChoice:
    """Chooses the reads to prefetch: those that most of the recent keys made before a write.

    Attributes:
        reads: the chosen reads, as tuples of state name, operation and request.
    """

    def __init__(self):
        self.reads = []
        self._excluded = set()
        self._counts = {}
        self._of_key = set()
        self._written = set()
        self._keys = 0
        self._limit = KEYS_BEFORE_FIRST_CHOICE

    def has_read(self, read):
        """Records a read of the current key."""
        if read[0] not in self._written and read not in self._of_key:
            self._of_key.add(read)
            self._counts[read] = self._counts.get(read, 0) + 1

    def written(self, state):
        """Records a write of the current key."""
        self._written.add(state)

    def exclude(self, read):
        """Excludes a read from now on."""
        self._excluded.add(read)
        self.reads = [other for other in self.reads if other != read]

    def next_key(self):
        """Ends the current key."""
        self._of_key.clear()
        self._written.clear()
        if self._keys >= self._limit:
            self.reads = [
                read
                for read, count in self._counts.items()
                if 2 * count >= self._keys and read not in self._excluded
            ]
            self._counts, self._keys, self._limit = {}, 0, KEYS_PER_CHOICE
        self._keys += 1
