"""Sends samples to a collector by OTLP over HTTP."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cleancut._metrics.catalog import Metric, metrics
from cleancut._metrics.prometheus import PREFIX
from cleancut._metrics.samples import Sample
from cleancut._packages import extra_package
from cleancut._version import __version__

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

_UNITS = {"seconds": "s", "bytes": "By"}


@contextmanager
def push(samples: Callable[[], Iterable[Sample]], url: str, every_s: float) -> Iterator[None]:
    """Sends samples periodically, and once more at the end.

    Metrics have their Prometheus names, counters without `_total`, which a collector adds when it
    exports them to Prometheus.

    Args:
        samples: returns the current samples.
        url: address of the collector, such as `http://localhost:4318`.
        every_s: seconds between two exports.
        RequestError: CLEANCUT_DEPENDENCY_MISSING.
    """
    extra_package(
        "opentelemetry.exporter.otlp.proto.http.metric_exporter",
        feature="Sending metrics to a collector",
        package="opentelemetry-exporter-otlp-proto-http",
        extra="otlp",
    )
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource

    exporter = OTLPMetricExporter(endpoint=f"{url.rstrip('/')}/v1/metrics")
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=every_s * 1000)
    resource = Resource.create({"service.name": "cleancut", "service.version": __version__})
    provider = MeterProvider(metric_readers=[reader], resource=resource)
    meter = provider.get_meter("cleancut", __version__)
    for metric in metrics().values():
        if metric.sources & {"exporter", "driver"}:
            is_counter = metric.type == "counter"
            create = (
                meter.create_observable_counter if is_counter else meter.create_observable_gauge
            )
            name = f"{PREFIX}{metric.name.removesuffix('_total')}"
            unit = _UNITS.get(name.rpartition("_")[2], "1")
            create(
                name, callbacks=[_observing(metric, samples)], unit=unit, description=metric.help
            )
    try:
        yield
    finally:
        provider.shutdown()


def _observing(
    metric: Metric, samples: Callable[[], Iterable[Sample]]
) -> "Callable[[CallbackOptions], Iterable[Observation]]":
    from opentelemetry.metrics import Observation

    def observe(_: "CallbackOptions") -> "Iterable[Observation]":
        matching = (sample for sample in samples() if sample.metric == metric.name)
        return [Observation(sample.value, dict(sample.labels)) for sample in matching]

    return observe
