"""Operations of a producer within a transaction."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from cleancut.sinks._kafka.cluster import KafkaCluster, confluent_kafka, is_fenced
from cleancut.sinks._kafka.records import Record

_COMMIT_S = 20.0
_ABORT_S = 5.0
# For room in the producer's queue.
_ROOM_S = 0.1
# Records from one look at what the producer has to tell to the next.
_POLLED = 1000


def produce(producer: Any, **record: Any) -> None:
    """Hands a record over, and waits for room in the queue, which is bounded."""
    while True:
        try:
            producer.produce(**record)
            return
        except BufferError:
            # A server that is away does not make room; its records fail when they time out.
            producer.poll(_ROOM_S)


def send(
    rows: Iterable[Record],
    topic: str,
    header: tuple[str, bytes] | None,
    producer: Any,
    give: Callable[..., None] = produce,
) -> int:
    """Hands records over.

    Args:
        rows: the records.
        topic: of all of them; "" takes their own.
        header: that each of them gets, besides its own.
        producer: within a transaction.
        give: `produce`, or what does more.

    Returns:
        How many these were.

    Raises:
        NoTopicError: one has none.
    """
    count, own = 0, [] if header is None else [header]
    for key, value, its_topic, headers, partition in rows:
        record = {"topic": topic or its_topic, "key": key, "value": value}
        if record["topic"] is None:
            raise NoTopicError
        if headers or own:
            record["headers"] = [(of["key"], of["value"]) for of in headers or ()] + own
        if partition is not None:
            record["partition"] = partition
        give(producer, **record)
        count += 1
        if count % _POLLED == 0:
            producer.poll(0)
    return count


class NoTopicError(Exception):
    """A record has no topic, and the sink none for all."""


def commit(producer: Any, seconds: float) -> None:
    """Commits, and continues after timeouts for some seconds.

    Raises:
        KafkaException: of the broker; with `_TIMED_OUT` if the broker has ended the transaction
            while the commit waited for brokers, so that the transaction can be repeated.
    """
    kafka = confluent_kafka()
    deadline = time.monotonic() + seconds
    waited = False
    while True:
        try:
            producer.commit_transaction(min(seconds, _COMMIT_S))
            return
        except kafka.KafkaException as failure:
            error = failure.args[0]
            if not error.retriable():
                if not waited:
                    raise
                detail = f"brokers did not answer a commit, and then: {error.str()}"
                timeout = kafka.KafkaError(kafka.KafkaError._TIMED_OUT, detail)
                raise kafka.KafkaException(timeout) from failure
            if time.monotonic() > deadline:
                raise
            waited = True


def give_up(producer: Any) -> None:
    """Leaves a producer, of which nobody knows how far it has come."""
    with suppress(Exception):
        producer.purge()
        producer.abort_transaction(_ABORT_S)


def too_long(failure: BaseException, took_s: float, cluster: KafkaCluster) -> str | None:
    """Why a transaction failed that was open for longer than it may be; None where it was not."""
    kafka = confluent_kafka()
    if not isinstance(failure, kafka.KafkaException) or took_s * 1000 < cluster.transaction_ms:
        return None
    codes = kafka.KafkaError
    # Not a timeout: brokers may be away for longer than a transaction may be open.
    ended = {codes.INVALID_TXN_STATE, codes._STATE}
    if not is_fenced(failure) and failure.args[0].code() not in ended:
        return None
    return (
        f"took longer than a transaction may be open ({cluster.transaction_ms} ms), and the broker"
        " has ended it; set transaction.timeout.ms in options, up to the broker's"
        " transaction.max.timeout.ms, or give the source smaller epochs (maxOffsetsPerTrigger,"
        " maxFilesPerTrigger)"
    )
