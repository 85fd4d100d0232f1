"""The peers of the piece `peers`: left out if they are not installed, else real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.peers import servers
from tests.bench.peers.piece import smallest_peers
from tests.bench.place import Place
from tests.bench.trees import this_tree


@pytest.mark.cluster
def test_peers_are_measured_beside_raftlog_or_named_as_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(name="this tree", folder=tmp_path, environment=this_tree().environment)
    figures = {figure.name: figure for (figure,) in smallest_peers([place])}
    said = capsys.readouterr().err
    for peer, begins in (("etcd", "etcd:"), ("jetstream_go", "JetStream, sync_interval always:")):
        if f"{peer} is left out" in said or "JetStream is left out" in said:
            assert f"{peer}_append_p50_ratio" not in figures
        else:
            assert begins in said, "the version is printed"
            assert figures[f"{peer}_append_p50_ratio"].value > 0
            assert figures[f"{peer}_read_cpu_ratio"].value > 0


def test_a_missing_program_is_named_with_what_fetches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(servers, "FOLDER", tmp_path)
    for find in (servers.etcd_program, servers.nats_program, servers.go_client):
        with pytest.raises(servers.NoPeer, match=r"is not installed: scripts/peers\.sh"):
            find()
