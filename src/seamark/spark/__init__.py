"""The one place that builds a SparkSession: quiet, in UTC, with Delta, and only when one is really needed."""

from __future__ import annotations

from seamark.config import SparkSettings
from seamark.spark.conf import session_conf
from seamark.spark.jars import DELTA_COORDINATES, DELTA_VERSION, DeltaJars, delta_jars, fetch_delta_jars, jar_folder
from seamark.spark.java import JavaFound, find_java
from seamark.spark.launch import spark_log
from seamark.spark.session import quiet_query_errors, spark_session

__all__ = [
    "DELTA_COORDINATES",
    "DELTA_VERSION",
    "DeltaJars",
    "JavaFound",
    "SparkSettings",
    "delta_jars",
    "fetch_delta_jars",
    "find_java",
    "jar_folder",
    "quiet_query_errors",
    "session_conf",
    "spark_log",
    "spark_session",
]
