"""Counting Spark jobs, whatever thread or job group they run in."""

from __future__ import annotations

import time
import uuid

from pyspark.sql import SparkSession

SEEN_WITHIN = 30  # seconds until Spark's own listener has noticed a job


class JobCounter:
    """How many Spark jobs ran while the block ran.

    Spark numbers its jobs in order, so a job of our own before the block and one after it enclose all others.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.jobs = 0

    def __enter__(self) -> JobCounter:
        self._before = max(self._own_job())
        return self

    def __exit__(self, *_: object) -> None:
        self.jobs = min(self._own_job()) - self._before - 1

    def _own_job(self) -> list[int]:
        """The numbers of the jobs of a query that does nothing."""
        context, group = self._spark.sparkContext, str(uuid.uuid4())
        context.setJobGroup(group, "the bench counts jobs")
        try:
            self._spark.range(1).collect()
        finally:
            for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
                context.setLocalProperty(name, None)  # type: ignore[arg-type]
        end = time.monotonic() + SEEN_WITHIN
        while not (numbers := list(context.statusTracker().getJobIdsForGroup(group))):
            if time.monotonic() > end:
                raise RuntimeError("Spark does not tell the number of a job that ended.")
            time.sleep(0.01)
        return numbers
