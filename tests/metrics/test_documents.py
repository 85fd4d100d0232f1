"""The page of metrics and the alert rules speak of the metrics that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from raftlog.metrics.document import families, page
from tests.docs.test_links import anchors

ROOT = Path(__file__).parents[2]
RULES = ROOT / "conf" / "prometheus-rules.yml"
DASHBOARD = ROOT / "conf" / "grafana-dashboard.json"


def test_the_page_of_metrics_is_as_the_metrics_are() -> None:
    found = (ROOT / "docs" / "METRICS.md").read_text(encoding="utf-8")
    assert found == page(), "run: python -m raftlog.metrics > docs/METRICS.md"


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def series() -> set[str]:
    """Every name that a rule may use."""
    endings = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}
    return {"up"} | {
        metric.name + ending for metric in families() for ending in endings.get(metric.type, ("",))
    }


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_uses_metrics_that_there_are_and_leads_to_what_to_do(rule: dict[str, Any]) -> None:
    used = set(re.findall(r"\b(?:raftlog_\w+|up)\b", re.sub(r'"[^"]*"', "", rule["expr"])))
    assert used
    assert used <= series()
    assert rule["labels"]["severity"] in ("page", "ticket")
    path, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert anchor in anchors(ROOT / path)


def test_grafana_reads_all_that_the_dashboard_says() -> None:
    """By the types that Grafana publishes: what they do not know would be missing."""
    register_default_plugins()
    said = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    read = json.loads(JSONEncoder().encode(Dashboard.from_json(said)))
    assert _without(said, read) == []
    said["panels"][0]["gridPoss"] = said["panels"][0].pop("gridPos")
    read = json.loads(JSONEncoder().encode(Dashboard.from_json(said)))
    assert _without(said, read) == [".panels.0.gridPoss"], "the check finds what is not read"


def _without(said: Any, read: Any, path: str = "") -> list[str]:
    """Where something is said that was not read as it is."""
    if isinstance(said, dict) and isinstance(read, dict):
        lost = [f"{path}.{key}" for key in said.keys() - read.keys()]
        both = said.keys() & read.keys()
    elif isinstance(said, list) and isinstance(read, list) and len(said) == len(read):
        lost, both = [], set(range(len(said)))
    else:
        return [] if said == read else [path]
    return lost + [each for key in both for each in _without(said[key], read[key], f"{path}.{key}")]


def test_the_dashboard_shows_metrics_that_there_are() -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    panels = dashboard["panels"]
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    assert len({panel["title"] for panel in panels}) == len(panels)
    used = {
        name
        for panel in panels
        for target in panel["targets"]
        for name in re.findall(r"\braftlog_\w+", target["expr"])
    }
    assert used <= series()
