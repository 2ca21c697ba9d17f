"""A real Prometheus that scrapes a test and evaluates the alerts of `conf`, faster."""

import json
import os
import re
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from demo.ports import free_port
from tests.support.patience import PATIENCE_S
from tests.support.server_process import ServerProcess

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "conf" / "prometheus" / "rules.yml"
# The `for` durations and the ranges of all alerts.
_FOR, _RANGE = "2s", "60s"


def binary() -> str | None:
    """Returns the binary that `make prometheus` has built; None without it."""
    built = sorted((ROOT / ".cache").glob("prometheus-*/prometheus"))
    return os.environ.get("CLEANCUT_PROMETHEUS") or next(map(str, built[::-1]), None)


def rules(thresholds: Mapping[str, str]) -> dict[str, Any]:
    """Returns the alerts with short durations.

    Args:
        thresholds: replacements of numbers in the expressions. Each number has to be
            present.
    """
    text = RULES.read_text(encoding="utf-8")
    for figure, other in thresholds.items():
        pattern = rf"(?<=> ){re.escape(figure)}\b"
        assert re.search(pattern, text), figure
        text = re.sub(pattern, other, text)
    parsed: dict[str, Any] = yaml.safe_load(text)
    for group in parsed["groups"]:
        for rule in group["rules"]:
            rule["expr"] = re.sub(r"\[\d+m\]", f"[{_RANGE}]", rule["expr"])
            if "for" in rule:
                rule["for"] = _FOR
    return parsed


class Prometheus(ServerProcess):
    """Scrapes one target and evaluates the alerts once per second."""

    def __init__(self, home: Path, target: int, thresholds: Mapping[str, str]) -> None:
        super().__init__(home)
        home.mkdir()
        (home / "rules.yml").write_text(yaml.safe_dump(rules(thresholds)), encoding="utf-8")
        scrape = {
            "job_name": "cleancut",
            "static_configs": [{"targets": [f"127.0.0.1:{target}"]}],
        }
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [scrape],
        }
        (home / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
        self._url = f"127.0.0.1:{free_port()}"
        executable = binary()
        assert executable is not None
        options = ["--config.file=prometheus.yml", "--storage.tsdb.path=data"]
        command = [executable, *options, f"--web.listen-address={self._url}"]
        self.launch(command, self.alerts, OSError, within_s=PATIENCE_S, every_s=0.1)

    def alerts(self) -> list[dict[str, Any]]:
        """Returns the pending and firing alerts."""
        url = f"http://{self._url}/api/v1/alerts"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            response = json.load(answer)
        assert response["status"] == "success"
        alerts: list[dict[str, Any]] = response["data"]["alerts"]
        return alerts
