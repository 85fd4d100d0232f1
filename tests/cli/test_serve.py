"""What a node that joins records of its cluster, which a real controller without replicas tells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from raftlog.cli.cluster_folder import (
    CLUSTER_FILE,
    ClusterFolder,
    forget,
    new_cluster,
    open_folder,
    record,
)
from raftlog.cli.serve import joined_cluster
from raftlog.cli.session import Session
from raftlog.config import ClientSettings, Settings
from raftlog.core.types import FORMAT_STAMP, NodeId
from raftlog.errors import DataFolderForeign, InvalidOption, NodeRemoved, NodeUnknown
from tests.client.members_scene import FOUNDERS, MembersScene, scene


@pytest.fixture
def cluster() -> Iterator[MembersScene]:
    """Three founders; nodes 4 and 5 were added, and 5 has come."""
    with scene(5) as found, found.members() as members:
        for node in (4, 5):
            members.add(node, found.addresses[NodeId(node)])
        found.come(5)
        yield found


def joined(cluster: MembersScene, folder: Path, node: int) -> ClusterFolder:
    client = ClientSettings(bootstrap_servers=cluster.servers)
    session = Session(settings=Settings(client=client), passed_on=())
    found = joined_cluster(folder, node, session)
    assert open_folder(folder) == found, "it is recorded"
    return found


def test_a_node_that_joins_records_who_founded_the_cluster(
    cluster: MembersScene, tmp_path: Path
) -> None:
    """Not who was there when it came: these are its first voters."""
    four = joined(cluster, tmp_path / "4", 4)
    assert four.founders == FOUNDERS
    assert sorted(four.addresses) == [1, 2, 3, 4, 5]
    assert joined(cluster, tmp_path / "4", 4) == four
    again = joined(cluster, tmp_path / "4", 5)
    assert again.founders == FOUNDERS, "in a folder of two nodes neither founds anything"


def test_a_node_that_joins_knows_of_no_observer_but_those_that_it_pulls_from(
    tmp_path: Path,
) -> None:
    """Without the controller's log it would follow any of them as a leader."""
    with scene(6) as cluster, cluster.members() as members:
        four, five, six, seven = (NodeId(node) for node in (4, 5, 6, 7))
        members.add(four, cluster.addresses[four], observer=True)
        cluster.come(four)
        members.add(five, cluster.addresses[five])
        members.add(six, cluster.addresses[six], observer=True, parents=(four,))
        members.add(seven, "127.0.0.1:1", observer=True)
        voter = joined(cluster, tmp_path / "5", five)
        assert sorted(voter.addresses) == [1, 2, 3, 5]
        observer = joined(cluster, tmp_path / "6", six)
        assert sorted(observer.addresses) == [1, 2, 3, 4, 5, 6]


def test_a_node_is_a_founder_only_by_its_own_folder(cluster: MembersScene, tmp_path: Path) -> None:
    """A wiped one has forgotten its votes."""
    assert joined(cluster, tmp_path / "wiped", 1).founders == (2, 3)
    addresses = {int(node): cluster.addresses[node] for node in FOUNDERS}
    own = replace(new_cluster(tmp_path / "own", addresses=addresses), cluster_id="c")
    record(own)
    assert joined(cluster, own.folder, 1).founders == FOUNDERS


def test_founders_are_those_that_the_cluster_names_whatever_was_recorded(
    cluster: MembersScene, tmp_path: Path
) -> None:
    addresses = {int(node): address for node, address in cluster.addresses.items()}
    record(replace(new_cluster(tmp_path / "c", addresses=addresses), cluster_id="c"))
    assert joined(cluster, tmp_path / "c", 4).founders == FOUNDERS


def test_who_was_not_added_or_has_a_folder_of_another_cluster_joins_nothing(
    cluster: MembersScene, tmp_path: Path
) -> None:
    with pytest.raises(NodeUnknown):
        joined(cluster, tmp_path / "none", 9)
    with cluster.members() as members:
        assert list(members.remove(5, timeout_s=5.0)) == []
    with pytest.raises(NodeRemoved):
        joined(cluster, tmp_path / "none", 5)
    record(new_cluster(tmp_path / "other", addresses={4: cluster.addresses[NodeId(4)]}))
    with pytest.raises(DataFolderForeign):
        joined(cluster, tmp_path / "other", 4)


@pytest.mark.parametrize(
    ("founders", "removed", "problem"),
    [
        ("founders = [4, 4]", "removed = []", "founders names a node twice"),
        ("founders = [0, 1]", "removed = []", "founders is no list of nodes"),
        ("founders = [true]", "removed = []", "founders is no list of nodes"),
        ('founders = ["4"]', "removed = []", "founders is no list of nodes"),
        ("founders = 4", "removed = []", "founders is no list of nodes"),
        ("", "removed = []", "founders is no list of nodes"),
        ("founders = [4]", "removed = [5, 5]", "removed names a node twice"),
        ("founders = [4]", "", "removed is no list of nodes"),
    ],
)
def test_founders_and_removed_nodes_that_are_no_different_nodes_are_refused(
    tmp_path: Path, founders: str, removed: str, problem: str
) -> None:
    lines = (
        f'format = "{FORMAT_STAMP}"',
        'cluster_id = "c"',
        founders,
        removed,
        "[nodes]",
        '4 = "h:1"',
    )
    (tmp_path / CLUSTER_FILE).write_text("\n".join(lines) + "\n")
    with pytest.raises(InvalidOption, match=problem):
        open_folder(tmp_path)


def test_a_folder_is_that_of_a_removed_node_only_if_it_was_recorded_so(
    cluster: MembersScene, tmp_path: Path
) -> None:
    """One that was copied and renamed is none: what is in it says whose it is."""
    own = joined(cluster, tmp_path / "c", 4)
    own.data(5).mkdir()
    assert 5 in joined(cluster, tmp_path / "c", 5).addresses
    forget(own.folder, 4)
    assert open_folder(own.folder).removed == (4,)
    with pytest.raises(NodeRemoved):
        joined(cluster, tmp_path / "c", 4)
