"""Serves samples for Prometheus."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from cleancut._metrics.catalog import metrics
from cleancut._metrics.samples import Sample
from cleancut._packages import extra_package
from cleancut.errors import error_of

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric as Family

PREFIX = "cleancut_"


class MetricsServer:
    """Answers scrapes at `/metrics` until `close` is called or its `with` block ends."""

    def __init__(self, server: Any, thread: Any, closed: Callable[[], None]) -> None:
        self._server = server
        self._thread = thread
        self._closed = closed

    def __repr__(self) -> str:
        return f"MetricsServer(port={self.port})"

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        return int(self._server.server_port)

    def close(self) -> None:
        """Stops the server; later scrapes are refused."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._closed()

    def __enter__(self) -> "MetricsServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(
    samples: Callable[[], Iterable[Sample]],
    address: str,
    port: int,
    closed: Callable[[], None] = lambda: None,
) -> MetricsServer:
    """Serves the samples that a function returns for each scrape.

    Args:
        samples: returns the current samples.
        address: address of the interface to listen on.
        port: port to listen on; 0 takes a free one.
        closed: called after the server was closed.

    Raises:
        RequestError: CLEANCUT_DEPENDENCY_MISSING; CLEANCUT_METRICS_BIND_FAILED if the port is in
            use or the address does not exist.
    """
    registry = _registry(samples)
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(port, address, registry)
    except (OSError, OverflowError) as error:
        raise error_of(
            "CLEANCUT_METRICS_BIND_FAILED", address=f"{address}:{port}", detail=str(error)
        ) from error
    return MetricsServer(server, thread, closed)


def exposition(samples: Iterable[Sample]) -> str:
    """Samples in the text format of Prometheus. Raises CLEANCUT_DEPENDENCY_MISSING as `serve`."""
    registry = _registry(lambda: samples)
    from prometheus_client import generate_latest

    return generate_latest(registry).decode()


def _registry(samples: Callable[[], Iterable[Sample]]) -> "CollectorRegistry":
    extra_package(
        "prometheus_client.registry",
        feature="The exporter of metrics",
        package="prometheus_client",
        extra="exporter",
    )
    from prometheus_client import CollectorRegistry
    from prometheus_client.registry import Collector

    class Samples(Collector):
        def collect(self) -> "Iterator[Family]":
            return families(samples())

    registry = CollectorRegistry()
    registry.register(Samples())
    return registry


def families(samples: Iterable[Sample]) -> "Iterator[Family]":
    """The samples by metric, in the order of the catalog."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    by_metric: dict[str, list[Sample]] = {}
    for sample in samples:
        by_metric.setdefault(sample.metric, []).append(sample)
    for name, metric in metrics().items():
        if name in by_metric:
            kind = CounterMetricFamily if metric.type == "counter" else GaugeMetricFamily
            family = kind(f"{PREFIX}{name}", metric.help)
            written = f"{PREFIX}{name}"
            for sample in by_metric[name]:
                family.add_sample(written, dict(sample.labels), sample.value)
            yield family
