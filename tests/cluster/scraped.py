"""Prometheus itself: it scrapes the nodes of a test, and tells which alerts fire."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from raftlog.chaos.cluster import PATIENCE_S, free_ports, wait_for
from tests.metrics.test_documents import RULES


class Prometheus:
    """A server of Prometheus, asked by its API."""

    def __init__(self, port: int) -> None:
        self._api = f"http://127.0.0.1:{port}/api/v1/"

    def query(self, expression: str) -> dict[str, float]:
        """The values now, by instance."""
        found = self._get("query?" + urllib.parse.urlencode({"query": expression}))["result"]
        return {each["metric"].get("instance", ""): float(each["value"][1]) for each in found}

    def has_data(self, expression: str) -> bool:
        """Whether it gives any value that is a number now."""
        found = self._get("query?" + urllib.parse.urlencode({"query": expression}))["result"]
        return any(each["value"][1] != "NaN" for each in found)

    def all_up(self, count: int) -> bool:
        """Whether so many nodes, all that it scrapes, have answered it last."""
        return list(self.query("up").values()) == [1] * count

    def firing(self) -> list[dict[str, str]]:
        """The labels of each alert that fires now."""
        firing = [each for each in self._get("alerts")["alerts"] if each["state"] == "firing"]
        for each in firing:
            assert "error expanding" not in each["annotations"]["summary"], each
        return [each["labels"] for each in firing]

    def fires(self, alert: str, **labels: str) -> bool:
        """Whether the alert fires now, with these labels among its own."""
        wanted = {"alertname": alert, **labels}.items()
        return any(wanted <= each.items() for each in self.firing())

    def _get(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(self._api + path, timeout=PATIENCE_S) as answer:
            data: dict[str, Any] = json.load(answer)["data"]
            return data


@contextmanager
def prometheus(
    folder: Path, targets: list[str], *, job: Mapping[str, Any] | None = None, every_s: int = 1
) -> Iterator[Prometheus]:
    """A server that scrapes the targets every `every_s` seconds. `job`: what else its job says.

    Its rules are the real ones for somebody who is in a hurry: they wait for 1 s in place of
    minutes, and take rates of the last 5 s. Nothing else of them is changed.
    """
    folder.mkdir(exist_ok=True)
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    for rule in rules["groups"][0]["rules"]:
        rule["expr"] = re.sub(r"\[\d+m]", "[5s]", rule["expr"])
        if "for" in rule:
            rule["for"] = "1s"
    (folder / "rules.yml").write_text(yaml.safe_dump(rules))
    scraped = {
        "job_name": "raftlog",
        "static_configs": [{"targets": targets}],
        **(job or {}),
    }
    every = {"scrape_interval": f"{every_s}s", "evaluation_interval": "1s"}
    config = {"global": every, "rule_files": ["rules.yml"], "scrape_configs": [scraped]}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_ports(1)
    command = [
        "prometheus", "--log.level=warn", f"--web.listen-address=127.0.0.1:{port}",
        f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
    ]  # fmt: skip
    with (folder / "prometheus.log").open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
    try:
        wait_for(partial(_is_ready, port), "Prometheus to be ready", PATIENCE_S)
        yield Prometheus(port)
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=PATIENCE_S):
            return True
    except OSError:
        return False
