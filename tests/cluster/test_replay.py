"""All nodes restart with many topics that have much to replay."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.place import Place
from tests.bench.replay import replay

TOPICS = 60
ENTRIES = 300
AGAIN_MAX = 2 * TOPICS
"""A machine that runs other tests may stall a node for an election timeout, or two, and then all
that it leads is elected again. Without quiescence during the replay there are over four elections
for each topic."""


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_no_member_campaigns_against_a_leader_while_all_topics_replay_their_logs(
    tmp_path: Path,
) -> None:
    (figure,) = replay(TOPICS, ENTRIES)(Place(name="replay", folder=tmp_path))
    assert figure.detail["groups_led"] == TOPICS + 1
    assert figure.value <= AGAIN_MAX
