"""A Spark cluster on loopback: one master, and workers at addresses of their own.

Spark's `local-cluster` gives all its workers one address, and Spark never runs a second attempt of
a task at the address of the first. So this starts the same master and workers in the driver's JVM,
each worker at its own address of 127.0.0.0/8. Executors are processes.
"""

from __future__ import annotations

from pathlib import Path

from pyspark import SparkConf, SparkContext

HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
"""The master's, and one for each worker."""

WORKER_CORES = 1
WORKER_MEMORY_MIB = 1024


def start_workers(count: int, work: Path) -> str:
    """Start the driver's JVM with a master and `count` workers in it; return the master's URL.

    To be called before there is a SparkContext. What runs in it ends with the JVM.
    """
    SparkContext._ensure_initialized(conf=SparkConf())
    jvm = SparkContext._jvm
    gateway = SparkContext._gateway
    assert jvm is not None, "the JVM was started just now"
    assert gateway is not None, "and with it the way to it"
    conf = jvm.org.apache.spark.SparkConf()
    conf.set("spark.master.rest.enabled", "false")
    deploy = jvm.org.apache.spark.deploy
    found = deploy.master.Master.startRpcEnvAndEndpoint(HOSTS[0], 0, 0, conf)
    url = f"spark://{HOSTS[0]}:{found._1().address().port()}"
    masters = gateway.new_array(jvm.java.lang.String, 1)
    masters[0] = url
    for number, host in enumerate(HOSTS[1 : count + 1], 1):
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            host,
            0,
            0,
            WORKER_CORES,
            WORKER_MEMORY_MIB,
            masters,
            str(work / "executors"),
            jvm.scala.Option.apply(number),
            conf,
            jvm.scala.Option.empty(),
        )
    return url
