"""The declared metrics, and the metrics that Python reports."""

import json

import pytest

from cleancut._metrics import catalog
from cleancut._metrics.samples import Sample
from tests.unit.test_tidy import ROOT

DECLARED = ROOT / "jvm/core/src/main/resources/metrics/cleancut-metrics.json"


def test_python_has_the_metrics_that_the_jar_declares() -> None:
    declared = json.loads(DECLARED.read_text(encoding="utf-8"))
    assert list(declared) == list(catalog.metrics())
    for name, metric in catalog.metrics().items():
        entry = declared[name]
        assert (metric.type, metric.help) == (entry["type"], entry["help"])
        assert (list(metric.labels), set(metric.sources)) == (entry["labels"], set(entry["from"]))


def test_a_sample_has_only_declared_labels() -> None:
    assert Sample("in_flight_rows", 1, {"operator": "0"}).of({"query": "q"}).labels == {
        "query": "q",
        "operator": "0",
    }
    with pytest.raises(ValueError, match="in_flight_rows has the labels"):
        Sample("in_flight_rows", 1, {"partition": "0"})
    with pytest.raises(KeyError):
        Sample("in_flight_row", 1)
