"""Sends epochs as spans to a collector by OTLP over HTTP."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING

from cleancut._checkpoint.read.epoch_info import EpochInfo
from cleancut._metrics.spans import spans_of
from cleancut._packages import extra_package
from cleancut._version import __version__
from cleancut.errors import error_of

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_NS_PER_MS = 1_000_000
_TIMEOUT_S = 10
# If a collector is unavailable for a long time, the oldest epochs are dropped.
_MOST_EPOCHS = 1000
_EPOCHS_AT_ONCE = 50


class SpanSender:
    """Sends epochs, as one trace each.

    The ids of traces and spans are derived from the query, the run and the epoch, so that repeated
    exports, also by another process, are equal.

    Args:
        url: address of the collector, such as `http://localhost:4318`.

    Raises:
        RequestError: CLEANCUT_DEPENDENCY_MISSING.
    """

    def __init__(self, url: str) -> None:
        extra_package(
            "opentelemetry.exporter.otlp.proto.http.trace_exporter",
            feature="Sending spans to a collector",
            package="opentelemetry-exporter-otlp-proto-http",
            extra="otlp",
        )
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        self._url = url
        self._exporter = OTLPSpanExporter(
            endpoint=f"{url.rstrip('/')}/v1/traces", timeout=_TIMEOUT_S
        )
        self._waiting: deque[tuple[EpochInfo, Mapping[str, str]]] = deque(maxlen=_MOST_EPOCHS)

    def send(self, epochs: Iterable[EpochInfo], query: Mapping[str, str]) -> None:
        """Sends epochs, and those that could not be sent before.

        Args:
            epochs: the epochs, in order.
            query: the labels that identify the query.

        Raises:
            RetryableError: CLEANCUT_SPAN_EXPORT_FAILED; the epochs are sent by the next call.
        """
        from opentelemetry.sdk.trace.export import SpanExportResult

        self._waiting.extend((info, query) for info in epochs)
        while self._waiting:
            some = list(self._waiting)[:_EPOCHS_AT_ONCE]
            spans = [span for info, labels in some for span in _readable(info, labels)]
            if self._exporter.export(spans) is not SpanExportResult.SUCCESS:
                raise error_of(
                    "CLEANCUT_SPAN_EXPORT_FAILED", url=self._url, epochs=len(self._waiting)
                )
            for _ in some:
                self._waiting.popleft()

    def close(self) -> None:
        """Closes the exporter."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


def _readable(info: EpochInfo, query: Mapping[str, str]) -> "Iterator[ReadableSpan]":
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, TraceFlags

    of_query = {f"cleancut.{name}": value for name, value in query.items()}
    resource = Resource.create({"service.name": "cleancut", **of_query})
    scope = InstrumentationScope("cleancut", __version__)
    trace = _digest(16, *query.values(), info.generation, info.epoch)

    def context(span: str) -> SpanContext:
        return SpanContext(trace, _digest(8, trace, span), False, TraceFlags(TraceFlags.SAMPLED))

    for span in spans_of(info):
        yield ReadableSpan(
            span.name,
            context=context(span.id),
            parent=None if span.parent is None else context(span.parent),
            resource=resource,
            attributes=dict(span.attributes),
            start_time=span.begin_ms * _NS_PER_MS,
            end_time=span.end_ms * _NS_PER_MS,
            instrumentation_scope=scope,
        )


def _digest(size: int, *values: object) -> int:
    return int.from_bytes(blake2b("\n".join(map(str, values)).encode(), digest_size=size).digest())
