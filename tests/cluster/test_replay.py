"""All nodes restart with many topics that have much to replay."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.place import Place
from tests.bench.replay import replay

TOPICS = 60
ENTRIES = 300


@pytest.mark.soak
def test_all_topics_are_led_again_when_all_nodes_have_replayed_their_logs(tmp_path: Path) -> None:
    """`make bench` counts the elections that this takes: about one for each topic."""
    (figure,) = replay(TOPICS, ENTRIES)(Place(name="replay", folder=tmp_path))
    assert figure.detail["groups_led"] == TOPICS + 1
