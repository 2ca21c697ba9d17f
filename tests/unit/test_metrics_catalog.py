"""The metrics that are declared, and those that Python tells."""

import json

import pytest

from cleancut._metrics import catalog
from cleancut._metrics.samples import Sample
from tests.unit.test_tidy import ROOT

DECLARED = ROOT / "jvm/core/src/main/resources/metrics/cleancut-metrics.json"


def test_python_has_what_the_jar_declares() -> None:
    found = json.loads(DECLARED.read_text(encoding="utf-8"))
    assert list(found) == list(catalog.metrics())
    for name, metric in catalog.metrics().items():
        entry = found[name]
        assert (metric.type, metric.help) == (entry["type"], entry["help"])
        assert (list(metric.labels), set(metric.sources)) == (entry["labels"], set(entry["from"]))


def test_a_sample_has_declared_labels_alone() -> None:
    assert Sample("in_flight_rows", 1, {"operator": "0"}).of({"query": "q"}).labels == {
        "query": "q",
        "operator": "0",
    }
    with pytest.raises(ValueError, match="in_flight_rows has the labels"):
        Sample("in_flight_rows", 1, {"partition": "0"})
    with pytest.raises(KeyError):
        Sample("in_flight_row", 1)
