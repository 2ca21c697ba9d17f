"""Alerts and dashboard: tested by Prometheus' own tool, and consistent with metrics and docs."""

import json
import os
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from cleancut._cli import main as _cli
from cleancut._error_catalog import SITE
from cleancut._metrics.catalog import metrics
from tests.support.documented import blocks, commands
from tests.support.patience import PATIENCE_S
from tests.unit.test_tidy import ROOT

PAGE = "docs/operate/monitoring.md"
RULES = ROOT / "python/cleancut/_assets/rules.yml"
CASES = ROOT / "tests/prometheus/rules_test.yml"
BOARD = ROOT / "python/cleancut/_assets/dashboard.json"
NAME = re.compile(r"\bcleancut_(\w+)")


def rules() -> list[dict[str, Any]]:
    text = RULES.read_text(encoding="utf-8")
    (group,) = yaml.safe_load(text)["groups"]
    return list(group["rules"])


def cases() -> list[dict[str, Any]]:
    text = CASES.read_text(encoding="utf-8")
    return [case for test in yaml.safe_load(text)["tests"] for case in test["alert_rule_test"]]


@pytest.fixture
def promtool() -> str:
    """Returns the tool that `make promtool` has built, or that is installed."""
    built = sorted((ROOT / ".cache").glob("promtool-*/promtool"))
    promtool = os.environ.get("CLEANCUT_PROMTOOL") or next(map(str, built[::-1]), None)
    promtool = promtool or shutil.which("promtool")
    if promtool is None:
        pytest.skip("`make promtool` compiles it once, which takes minutes")
    return promtool


def tool(promtool: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [promtool, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_each_alert_fires_when_it_should_and_only_then(promtool: str, tmp_path: Path) -> None:
    checked = tool(promtool, "check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    for path in (RULES, CASES):
        shutil.copy(path, tmp_path)
    answer = tool(promtool, "test", "rules", tmp_path / CASES.name)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize("alert", [rule["alert"] for rule in rules()])
def test_rules_that_never_or_always_fire_are_found(
    promtool: str, alert: str, tmp_path: Path
) -> None:
    """The tests of the rules fail for both."""
    changed = rules()
    (tested,) = [rule for rule in changed if rule["alert"] == alert]
    shutil.copy(CASES, tmp_path)
    for expr in (f"({tested['expr']}) and vector(0) > 1", f"absent(absent({tested['expr']}))"):
        broken = [rule | {"expr": expr} if rule is tested else rule for rule in changed]
        group = {"groups": [{"name": "cleancut", "rules": broken}]}
        (tmp_path / "rules.yml").write_text(yaml.safe_dump(group), encoding="utf-8")
        answer = tool(promtool, "test", "rules", tmp_path / "rules_test.yml")
        assert answer.returncode == 1
        assert f"alertname: {alert}" in answer.stdout + answer.stderr


def test_each_alert_is_tested_both_ways_and_documented() -> None:
    seen = defaultdict(set)
    for case in cases():
        seen[case["alertname"]].add(bool(case["exp_alerts"]))
    assert seen == {rule["alert"]: {True, False} for rule in rules()}
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    headings = re.findall(r"^### (Cleancut\w+)$", page, flags=re.M)
    assert headings == [rule["alert"] for rule in rules()]
    for case in rules():
        # A heading is an anchor in small letters; tests of links check pages and headings.
        url = f"{SITE}operate/monitoring.html#{case['alert'].lower()}"
        assert case["annotations"]["runbook_url"] == url
        assert case["labels"]["severity"] in ("warning", "critical")


def expressions(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        yield from ([node["expr"]] if "expr" in node else [])
        node = list(node.values())
    if isinstance(node, list):
        for inner in node:
            yield from expressions(inner)


def board() -> dict[str, Any]:
    dashboard: dict[str, Any] = json.loads(BOARD.read_text(encoding="utf-8"))
    return dashboard


def lost(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Returns the parts of a dashboard that Grafana's own model does not know."""
    if isinstance(before, dict):
        for key, value in before.items():
            if key not in after:
                yield f"{path}/{key}"
            else:
                yield from lost(value, after[key], f"{path}/{key}")
    elif isinstance(before, list):
        if len(before) != len(after):
            yield path
        for at, (one, two) in enumerate(zip(before, after, strict=False)):
            yield from lost(one, two, f"{path}[{at}]")
    elif before != after:
        yield path


def modelled(dashboard: dict[str, Any]) -> Any:
    plugins.register_default_plugins()
    return json.loads(json.dumps(Dashboard.from_json(dashboard), cls=JSONEncoder))


def test_the_dashboard_matches_grafanas_own_model() -> None:
    assert list(lost(board(), modelled(board()))) == []
    wrong = board()
    wrong["panels"][1]["fieldConfig"]["default"] = {}
    wrong["templating"]["list"][1]["querry"] = "x"
    assert list(lost(wrong, modelled(wrong))) == [
        "/templating/list[1]/querry",
        "/panels[1]/fieldConfig/default",
    ]


def test_the_dashboard_fits_its_grid_and_chooses_queries() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board()["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
        assert panel["type"] == "row" or panel["description"]
    names = [variable["name"] for variable in board()["templating"]["list"]]
    assert names == ["datasource", "location", "query"]
    assert len({panel["id"] for panel in board()["panels"]}) == len(board()["panels"])


def test_rules_and_dashboard_use_only_exposed_metrics() -> None:
    exposed = {
        metric.name for metric in metrics().values() if metric.sources & {"exporter", "driver"}
    }
    shown = [*expressions(board()), *(rule["expr"] for rule in rules())]
    shown += [variable["query"]["query"] for variable in board()["templating"]["list"][1:]]
    assert len(shown) > 40
    named = {name for expr in shown for name in NAME.findall(expr)}
    assert named <= exposed
    # A selector with a label that the metric lacks matches nothing.
    for expr in expressions(board()):
        assert "$query" in expr or "$location" in expr
    labels = {label for metric in metrics().values() for label in metric.labels}
    legends = re.findall(r"\{\{(\w+)\}\}", BOARD.read_text(encoding="utf-8"))
    assert set(legends) <= labels | {"location", "query"}


def test_promtool_reads_each_expression_of_the_dashboard(promtool: str, tmp_path: Path) -> None:
    replaced = [
        re.sub(r"\$(?:query|location)", ".*", expr).replace("$__rate_interval", "5m")
        for expr in expressions(board())
    ]
    recorded = [{"record": f"panel:{at}", "expr": expr} for at, expr in enumerate(replaced)]
    path = tmp_path / "board.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": recorded}]}))
    answer = tool(promtool, "check", "rules", path)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert f"{len(recorded)} rules found" in answer.stdout


def test_the_documented_commands_and_settings_are_right(
    promtool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((pip, *_), assets, exporter) = commands(blocks(PAGE, "sh")[0])
    assert pip == "pip"
    parsed = _cli._parser().parse_args(exporter[1:])
    assert (parsed.location, parsed.budget) == (["s3://bucket/delays", "s3://bucket/orders"], 5)
    scrape = blocks(PAGE, "yaml")[0]
    (job,) = yaml.safe_load(scrape)["scrape_configs"]
    assert job["static_configs"][0]["targets"] == [f"exporter:{parsed.port}"]
    monkeypatch.chdir(tmp_path)
    assert _cli.main(assets[1:]) == _cli.OK
    assert (tmp_path / "cleancut" / "dashboard.json").read_bytes() == BOARD.read_bytes()
    (tmp_path / "prometheus.yml").write_text(scrape, encoding="utf-8")
    answer = tool(promtool, "check", "config", tmp_path / "prometheus.yml")
    assert answer.returncode == 0, answer.stdout + answer.stderr
