"""The settings of ZooKeeper: one way to find a cluster, and secrets that no message shows."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import raftlog
from raftlog.config import ClientSettings, load
from raftlog.config_ensemble import DiscoverySettings, Ensemble, found_by, parse_ensemble
from raftlog.discovery.session import Session
from raftlog.errors import InvalidOption

SECRET = "correct-horse"


@pytest.mark.parametrize(
    ("text", "hosts", "root"),
    [
        ("zk1:2181", "zk1:2181", "/raftlog"),
        ("zk1", "zk1", "/raftlog"),
        ("zk1:2181, zk2:2181/sales", "zk1:2181,zk2:2181", "/sales"),
        ("[::1]:2181/a/b.c-d_e", "[::1]:2181", "/a/b.c-d_e"),
    ],
)
def test_an_ensemble_is_hosts_and_a_path(text: str, hosts: str, root: str) -> None:
    assert parse_ensemble(text, "client.zookeeper") == Ensemble(hosts, root)


@pytest.mark.parametrize(
    "text",
    ["", ",", "a:1,", "a:0", "a:65536", "a:b", "a:1/", "a:1//b", "a:1/b/", "a:1/../b", "a:1/b c",
     "a:1/.", "a:1/zookeeper/x", "zk://a:1", "a@b:1", "a:1/" + "x" * 101,
     "a..b:1", "[::1:1", "::1:1", f"{'x' * 64}.org:1"],
)  # fmt: skip
def test_what_is_no_ensemble_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidOption, match="zk1:2181"):
        parse_ensemble(text, "client.zookeeper")


def test_a_client_finds_its_cluster_in_one_way() -> None:
    both = ["client.zookeeper=a:1", "client.bootstrap_servers=b:1"]
    with pytest.raises(InvalidOption, match=r"client\.bootstrap_servers as well"):
        load(flags=both)
    assert load(flags=["client.zookeeper=a:1"]).client.zookeeper == "a:1"
    with pytest.raises(InvalidOption, match="'servers' as well"):
        raftlog.connect("b:1", zookeeper="a:1")


def test_what_is_given_nearer_replaces_either_way() -> None:
    by_zookeeper = ClientSettings(zookeeper="a:1")
    with raftlog.connect("b:1", settings=by_zookeeper) as client:
        assert (client.settings.bootstrap_servers, client.settings.zookeeper) == ("b:1", "")
    by_servers = ClientSettings(bootstrap_servers="b:1")
    with raftlog.connect(zookeeper="a:1", settings=by_servers) as client:
        assert (client.settings.bootstrap_servers, client.settings.zookeeper) == ("", "a:1")
    with raftlog.connect(settings=by_zookeeper, request_timeout_s=3) as client:
        assert client.settings.zookeeper == "a:1"
    assert found_by(None, None, ("--servers", "--zookeeper")) == {}


@pytest.mark.parametrize(("servers", "zookeeper"), [("", None), (None, ""), ("", "")])
def test_what_is_given_empty_finds_no_cluster(servers: str | None, zookeeper: str | None) -> None:
    with pytest.raises(InvalidOption, match="is given and empty") as caught:
        found_by(servers, zookeeper, ("--servers", "--zookeeper"))
    assert caught.value.option == ("--servers" if zookeeper is None else "--zookeeper")


def test_a_certificate_needs_its_key_and_who_may_sign_the_others() -> None:
    with pytest.raises(InvalidOption, match="zookeeper_key_file"):
        load(flags=["discovery.zookeeper_cert_file=c.pem"])
    with pytest.raises(InvalidOption, match="zookeeper_ca_file"):
        load(flags=["client.zookeeper_cert_file=c.pem", "client.zookeeper_key_file=k.pem"])


def test_credentials_come_from_a_file_or_a_variable_and_are_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "credentials"
    file.write_text(f"raftlog:{SECRET}\n")
    monkeypatch.setenv("ZK_AUTH", f"raftlog:{SECRET}")
    for reference in (f"file:{file}", "env:ZK_AUTH"):
        settings = DiscoverySettings(zookeeper="a:1", zookeeper_credentials=reference)
        session = Session(settings, option="discovery.zookeeper")
        assert session.client.auth_data == {("digest", f"raftlog:{SECRET}")}
        assert SECRET not in repr(settings) + repr(session.acl)
        caplog.set_level(logging.DEBUG)
        session.client.logger.debug("%s", session.client.auth_data)  # as kazoo does
        assert SECRET not in caplog.text


@pytest.mark.parametrize(
    "reference", [SECRET, f"raftlog:{SECRET}", "env:ZK_MISSING", "file:/nowhere", "env:ZK_HALF"]
)
def test_credentials_that_are_not_there_are_refused_unseen(
    reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZK_HALF", f"{SECRET}:")
    settings = DiscoverySettings(zookeeper="a:1", zookeeper_credentials=reference)
    with pytest.raises(InvalidOption, match="zookeeper_credentials") as refused:
        Session(settings, option="discovery.zookeeper")
    assert SECRET not in str(refused.value)


def test_a_certificate_that_cannot_be_read_is_named() -> None:
    settings = ClientSettings(zookeeper="a:1", zookeeper_ca_file="/nowhere.pem")
    with pytest.raises(InvalidOption, match=r"client\.zookeeper_ca_file"):
        Session(settings, option="client.zookeeper")
