"""The page of metrics and the alert rules speak of the metrics that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from raftlog.metrics.document import families, page
from tests.docs.test_links import anchors

ROOT = Path(__file__).parents[2]
RULES = ROOT / "conf" / "prometheus-rules.yml"


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


def test_the_dashboard_shows_metrics_that_there_are() -> None:
    dashboard = json.loads((ROOT / "conf" / "grafana-dashboard.json").read_text(encoding="utf-8"))
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
