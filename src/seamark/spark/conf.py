"""What a session is built with."""

from __future__ import annotations

import os
import re

from seamark.config import SparkSettings

DELTA_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def session_conf(settings: SparkSettings, jars: tuple[str, ...] = ()) -> dict[str, str]:
    """Everything the session is built with. `settings.conf` wins over Seamark's own choices."""
    conf = {
        "spark.app.name": "seamark",
        **DELTA_CONF,
        "spark.driver.memory": settings.driver_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # the default asks the JVM half a dozen things for each expression, so that an error can name its Python line:
        # building expressions took four times as long
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        **runtime_conf(settings),
    }
    if settings.is_local:
        # loopback: works on a machine whose host name does not resolve, and nobody else can reach the driver
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if jars:
        conf["spark.jars"] = ",".join(jars)
    own = dict(settings.conf)
    for name in ("spark.jars", "spark.sql.extensions"):  # lists: the user's come on top of what Delta needs
        if name in conf and name in own:
            own[name] = ",".join(dict.fromkeys(f"{conf[name]},{own[name]}".split(",")))
    return conf | own


def runtime_conf(settings: SparkSettings) -> dict[str, str]:
    """What can also be set on a session that somebody else's server holds."""
    conf = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # slices go through Python in Arrow batches, and each batch has its price; Spark bounds their bytes too
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        # else Spark hands what a query compares to the readers of files in the calendar from before 1582, which lacks
        # ten days: files and pages that have them would be skipped
        "spark.sql.datetime.java8API.enabled": "true",
        # a read of up to a hundred keys skips pages by each of them, not only by the least and the greatest
        "spark.sql.parquet.pushdown.inFilterThreshold": "200",
        "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
        # a read of many slices lists them in this process instead of starting a Spark job for it
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
        # the default makes 50 tasks for each snapshot of a Delta table
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    partitions = settings.shuffle_partitions or (max(2, _cores(settings.master)) if settings.is_local else None)
    if partitions:
        conf["spark.sql.shuffle.partitions"] = str(partitions)
    return conf


def _cores(master: str) -> int:
    threads = re.fullmatch(r"local\[(\d+)(?:,\s*\d+)?\]", master)
    if threads:
        return int(threads[1])
    if master == "local":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
