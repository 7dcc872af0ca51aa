import ast
import re
from dataclasses import is_dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.config import (
    KEYS,
    Config,
    Kind,
    LogSettings,
    MetricsSettings,
    RowSettings,
    SchedulerSettings,
    SparkSettings,
    find_project,
    load_config,
    masked,
)
from seamark.config.keys import UNREAD
from seamark.errors import ConfigError

DOCS = Path(__file__).parents[1] / "docs" / "configuration.md"
SOURCES = Path(__file__).parents[1] / "src" / "seamark"


@pytest.fixture
def project(tmp_path):
    def write(text: str = "") -> Path:
        (tmp_path / "seamark.toml").write_text(text)
        return tmp_path

    return write


def load(folder: Path, **env: str) -> Config:
    return load_config(folder, env=env)


# --- values and where they come from ----------------------------------------------------------------------------------


def test_an_empty_file_gives_the_defaults(project):
    folder = project()
    config = load(folder)

    assert config.pipeline == "pipeline.py:ds"
    assert config.control == f"sqlite:///{folder}/seamark.db"
    assert config.warehouse == str(folder / "warehouse")
    assert config.block_rows == 500_000
    assert config.spark == SparkSettings()
    assert config.rows == RowSettings(fold_share=0.2, fold_slices=64, keep_bases=2, cache_rows=0)
    assert config.scheduler == SchedulerSettings()
    assert config.metrics == MetricsSettings(port=None, host="127.0.0.1")
    assert config.log == LogSettings(level="INFO", json=False)
    assert {line.origin for line in config.listing()} == {"default"}


def test_the_file_sets_every_section(project):
    config = load(
        project("""
block_rows = 10

[spark]
master = "local[2]"
jars = ["more.jar", "hdfs://there/other.jar"]
conf = {"spark.a" = true, "spark.b" = 3}

[rows]
fold_share = 1

[scheduler]
lease = "2m"
wait = 1.5

[metrics]
port = 9000

[log]
json = true
""")
    )

    assert config.block_rows == 10
    assert config.spark.master == "local[2]"
    assert config.spark.jars == (str(config.folder / "more.jar"), "hdfs://there/other.jar")
    assert config.spark.conf == {"spark.a": "true", "spark.b": "3"}
    assert config.rows.fold_share == 1.0
    assert (config.scheduler.lease, config.scheduler.wait) == (120.0, 1.5)
    assert config.metrics.port == 9000
    assert config.log.json is True


def test_spark_settings_may_be_written_with_dots(project):
    config = load(project("[spark.conf]\nspark.sql.ansi.enabled = false\n'spark.x' = 'y'\n"))
    assert config.spark.conf == {"spark.sql.ansi.enabled": "false", "spark.x": "y"}


@pytest.mark.scenario("C5")
def test_an_argument_wins_over_the_environment_over_the_file_over_the_default(project):
    folder = project('pipeline = "a.py:ds"\ncontrol = "postgresql://file"\nblock_rows = 5\n')
    env = {"SEAMARK_CONTROL": "postgresql://env", "SEAMARK_BLOCK_ROWS": "2", "SEAMARK_SPARK_MASTER": "local[3]"}

    config = load_config(folder, env, block_rows=3, spark_driver_memory="1g", warehouse=None)

    assert (config.pipeline, config.origin("pipeline")) == ("a.py:ds", "seamark.toml, line 1")
    assert (config.control, config.origin("control")) == (
        "postgresql://env",
        "environment variable SEAMARK_CONTROL",
    )
    assert (config.block_rows, config.origin("block_rows")) == (3, "argument")
    assert (config.spark.master, config.origin("spark.master")) == (
        "local[3]",
        "environment variable SEAMARK_SPARK_MASTER",
    )
    assert (config.spark.driver_memory, config.origin("spark.driver_memory")) == ("1g", "argument")
    assert config.origin("warehouse") == "default"


@pytest.mark.scenario("C5")
def test_every_key_can_be_set_by_its_variable(project):
    texts = {
        Kind.TEXT: "text", Kind.COUNT: "7", Kind.NUMBER: "7.5", Kind.FLAG: "yes", Kind.DURATION: "7s",
        Kind.PATH: "/seven", Kind.PATHS: "/a.jar, /b.jar", Kind.URL: "postgresql://h/d",
        Kind.TEXTS_BY_NAME: '{"spark.a": "b"}',
    }  # fmt: skip
    env = {key.variable: key.choices[0] if key.choices else texts[key.kind] for key in KEYS}

    config = load_config(project(), env)

    assert {line.key: line.origin for line in config.listing()} == {
        key.name: f"environment variable {key.variable}" for key in KEYS
    }
    assert config.log.json is True
    assert config.spark.jars == ("/a.jar", "/b.jar")
    assert config.scheduler.wait == 7.0
    assert config.spark.conf == {"spark.a": "b"}


def test_an_empty_variable_is_not_set(project):
    assert load(project(), SEAMARK_SPARK_MASTER="").spark.master == "local[*]"


def test_relative_paths_of_the_file_are_the_projects_and_those_of_the_environment_are_the_shells(
    project, tmp_path_factory, monkeypatch
):
    folder = project('control = "sqlite:///db/my.db?timeout=5"\nwarehouse = "w"\n')
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)

    config = load(folder)
    assert config.control == f"sqlite:///{folder}/db/my.db?timeout=5"
    assert config.warehouse == f"{folder}/w"

    config = load(folder, SEAMARK_CONTROL="sqlite:///x.db", SEAMARK_WAREHOUSE="y")
    assert config.control == f"sqlite:///{elsewhere}/x.db"
    assert config.warehouse == f"{elsewhere}/y"


@pytest.mark.parametrize("url", ["sqlite:////abs/x.db", "sqlite://", "sqlite:///:memory:", "postgresql://h/d"])
def test_other_database_urls_stay_as_they_are(project, url):
    assert load(project(f'control = "{url}"')).control == url


@pytest.mark.parametrize("place", ["s3a://bucket/tables", "/abs/tables"])
def test_absolute_warehouses_stay_as_they_are(project, place):
    assert load(project(f'warehouse = "{place}"')).warehouse == place


@given(st.integers(0, 10_000), st.sampled_from(["ms", "s", "m", "h", "d"]))
def test_durations(number, unit):
    seconds = load_config(Path("/"), {"SEAMARK_SCHEDULER_WAIT": f"{number}{unit}"}, required=False).scheduler.wait
    assert seconds == pytest.approx(number * {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}[unit])


# --- finding the project ----------------------------------------------------------------------------------------------


def test_the_project_is_found_from_a_folder_inside(project):
    folder = project()
    inside = folder / "a" / "b"
    inside.mkdir(parents=True)
    assert find_project(inside) == folder
    assert load(inside).file == folder / "seamark.toml"


@pytest.mark.scenario("C2")
def test_outside_a_project_the_error_names_file_folder_and_init(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path)
    assert "seamark.toml" in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "seamark init" in str(caught.value)


def test_without_a_file_a_program_can_still_ask(tmp_path):
    config = load_config(tmp_path, {}, required=False, control="sqlite://")
    assert (config.folder, config.file, config.control) == (tmp_path, None, "sqlite://")


# --- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("C3")
@pytest.mark.parametrize(
    ("text", "line", "key", "meant"),
    [
        ('\nwarehuose = "w"\n', 2, "warehuose", "'warehouse'"),
        ('block_rows = 1\n\n[spark]\n# a comment\nmastr = "local"\n', 5, "spark.mastr", "'spark.master'"),
        ("[shceduler]\nlease = 1\n", 1, "shceduler", "'[scheduler]'"),
        ('spark.mastr = "x"\n', 1, "spark.mastr", "'spark.master'"),
        ("a = 1\n", 1, "a", "Known keys: pipeline, control"),
    ],
)
def test_an_unknown_key_is_named_with_its_line_and_the_nearest_known_one(project, text, line, key, meant):
    folder = project(text)
    with pytest.raises(ConfigError) as caught:
        load(folder)
    assert f"{folder / 'seamark.toml'}, line {line}: unknown key '{key}'" in str(caught.value)
    assert meant in str(caught.value)


@pytest.mark.scenario("C3")
@pytest.mark.parametrize(
    ("text", "line", "wanted"),
    [
        ("\nblock_rows = 'many'", 2, "'block_rows' must be a whole number; found many"),
        ("block_rows = true", 1, "'block_rows' must be a whole number; found true"),
        ("block_rows = 1", 1, "'block_rows' must be at least 2; found 1"),
        ("pipeline = 3", 1, "'pipeline' must be text; found 3"),
        ("pipeline = ' '", 1, "'pipeline' must be text"),
        ("spark = 3", 1, "'spark' must be a table of settings; found 3"),
        ("[spark]\njars = 'one.jar'", 2, "'spark.jars' must be a list of files"),
        ("[spark]\nlog_level = 'LOUD'", 2, "'spark.log_level' must be one of OFF, FATAL"),
        ("[spark.conf]\na = [1]", 1, "'spark.conf' must be a table of names and texts"),
        ("[scheduler]\n\nlease = '30 parsecs'", 3, "'scheduler.lease' must be a duration such as \"30s\""),
        ("[scheduler]\nlease = -1", 2, "'scheduler.lease' must be at least 0.001"),
        ("[scheduler]\nlease = nan", 2, "'scheduler.lease' must be a duration"),
        ("[metrics]\nport = 70000", 2, "'metrics.port' must be at most 65535"),
        ("[log]\njson = 'yes'", 2, "'log.json' must be true or false"),
    ],
)
def test_a_wrong_value_is_named_with_its_line(project, text, line, wanted):
    folder = project(text)
    with pytest.raises(ConfigError) as caught:
        load(folder)
    assert f"{folder / 'seamark.toml'}, line {line}: {wanted}" in str(caught.value)


@pytest.mark.scenario("C3")
def test_broken_toml_is_named_with_its_line(project):
    folder = project('control = "x"\nwarehouse = w\n')
    with pytest.raises(ConfigError, match=r"seamark\.toml, line 2: this is not TOML"):
        load(folder)
    with pytest.raises(ConfigError, match=r"seamark\.toml, line 2: this is not TOML"):
        load(project('control = "x"\n[spark'))


def test_a_file_that_is_not_text(tmp_path):
    (tmp_path / "seamark.toml").write_bytes(b'control = "\xff"')
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        load(tmp_path)


def test_a_wrong_variable_and_a_wrong_argument_are_named(project):
    with pytest.raises(ConfigError, match="variable SEAMARK_BLOCK_ROWS: 'block_rows' must be a whole number"):
        load(project(), SEAMARK_BLOCK_ROWS="many")
    with pytest.raises(ConfigError, match="argument block_rows: 'block_rows' must be at least 2"):
        load_config(project(), {}, block_rows=0)
    with pytest.raises(ConfigError, match="did you mean 'warehouse'"):
        load_config(project(), {}, warehose="x")
    with pytest.raises(ConfigError, match=r"did you mean 'spark\.master'"):
        load(project()).origin("spark.mastr")


# --- settings that nothing reads --------------------------------------------------------------------------------------


def test_a_file_that_sets_what_nothing_reads_still_loads(project):
    text = '[scheduler]\nlease = "2m"\nhandlers_table = "my_handlers"\nscan_period = "9s"\n'

    config = load(project(text), SEAMARK_SCHEDULER_RUNNERS_TABLE="my_runners")

    assert config.scheduler.lease == 120.0
    assert config.unread == {
        "scheduler.handlers_table": "seamark.toml, line 3",
        "scheduler.scan_period": "seamark.toml, line 4",
        "scheduler.runners_table": "environment variable SEAMARK_SCHEDULER_RUNNERS_TABLE",
    }
    assert not {"scheduler.handlers_table", "scheduler.scan_period"} & {line.key for line in config.listing()}


def test_every_key_is_read_somewhere():
    read = _keys_read()
    assert [key.name for key in KEYS if key.name not in read] == []
    assert not set(UNREAD) & {key.name for key in KEYS}


def _keys_read() -> set[str]:
    """The keys that the sources read: `config.warehouse`, `config.rows.keep_bases`, `settings.jars`."""
    sections = {"Config": "", "SparkSettings": "spark", "RowSettings": "rows", "ViewSettings": "views"}
    own = {SOURCES / "config" / name for name in ("keys.py", "settings.py", "load.py", "file.py", "values.py")}
    read = set()
    for file in SOURCES.rglob("*.py"):
        tree = ast.parse(file.read_text())
        typed = {
            name: section
            for arg in ast.walk(tree)
            if isinstance(arg, ast.arg) and arg.annotation
            for kind, section in sections.items()
            if kind in ast.unparse(arg.annotation)
            for name in (arg.arg, f"self._{arg.arg}")  # as it is given, and as an object keeps it
        }
        for node in ast.walk(tree) if file not in own else ():
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                read.add(_key_of(node, typed))
    return read


def _key_of(node: ast.Attribute, typed: dict[str, str]) -> str:
    """The key that an attribute would be; a parameter is of the section that its type says."""
    base = ast.unparse(node.value)
    owner = typed.get(base, "" if base.endswith("config") else base.rpartition(".")[2])
    return f"{owner}.{node.attr}" if owner else node.attr


# --- passwords --------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("C9")
@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql+psycopg://me:secret@host:5432/db", "postgresql+psycopg://me:***@host:5432/db"),
        ("postgresql://me:s@c:r/e?t@host/db", "postgresql://me:***@host/db"),
        ("postgresql://:secret@host/db", "postgresql://:***@host/db"),
        ("postgresql://me@host/db?password=secret&x=1", "postgresql://me@host/db?password=***&x=1"),
        ("host=h password=secret dbname=d", "host=h password=*** dbname=d"),
        ("host=h password='my secret' dbname=d", "host=h password=*** dbname=d"),
        ("postgresql://me:secret", "postgresql://me:***"),
        ("postgresql://me:secret/x", "postgresql://me:***"),
        ("postgresql:/me:secret@host", "postgresql:/me:***@host"),
        ("me:secret@host/db", "me:***@host/db"),
        ("sc://host:15002/;token=secret;user_id=me", "sc://host:15002/;token=***;user_id=me"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("postgresql://host:5432/db", "postgresql://host:5432/db"),
        ("sqlite:////home/a:b@c/x.db", "sqlite:////home/a:b@c/x.db"),
        ("local[*]", "local[*]"),
        ("spark://a:7077,b:7077", "spark://a:7077,b:7077"),
    ],
)
def test_a_password_is_masked(url, shown):
    assert masked(url) == shown


@pytest.mark.scenario("C9")
@given(st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda text: text not in "***"))
def test_no_password_comes_through(password):
    password = f"<{password}>"
    assert password not in masked(f"postgresql+psycopg://me:{password}@host:5432/db")


@pytest.mark.scenario("C9")
def test_the_configuration_shows_no_secret(project):
    folder = project(
        'control = "postgresql://me:secret@host/db"\n[spark]\nmaster = "sc://h:1/;token=secret"\n'
        '[spark.conf]\n"fs.s3a.secret.key" = "secret"\n"fs.s3a.access.key" = "secret"\nurl = "jdbc:x://me:secret@h/"\n'
    )
    config = load(folder)
    assert "secret" in config.control
    for shown in (repr(config), str(config), repr(config.spark), *(line.value for line in config.listing())):
        assert "secret" not in shown.replace("fs.s3a.secret.key", "")
    assert "postgresql://me:***@host/db" in repr(config)


@pytest.mark.scenario("C9")
def test_a_wrong_database_url_is_not_repeated(project):
    with pytest.raises(ConfigError) as caught:
        load(project('control = ["postgresql://me:secret@host/db"]'))
    assert "secret" not in str(caught.value)


# --- documentation ----------------------------------------------------------------------------------------------------


@pytest.mark.scenario("C39")
def test_the_page_lists_every_key_with_its_default_and_meaning():
    lines = re.findall(r"^\| `([\w.]+)` \| (.+?) \| (.+) \|$", DOCS.read_text(), re.MULTILINE)
    assert lines == [(key.name, _default_as_written(key), key.doc) for key in KEYS]


def _default_as_written(key) -> str:
    default = Config(folder=Path()).value(key)
    if default in (None, (), {}):
        return "none"
    match key.kind:
        case Kind.DURATION:
            return f'`"{default / 3600:g}h"`' if default >= 3600 else f'`"{default:g}s"`'
        case Kind.FLAG:
            return f"`{str(default).lower()}`"
    return f'`"{default}"`' if isinstance(default, str) else f"`{default}`"


def test_every_field_of_the_dataclasses_has_a_key(tmp_path):
    names = []
    for name, value in vars(Config(folder=tmp_path)).items():
        names += [f"{name}.{inner}" for inner in vars(value)] if is_dataclass(value) else [name]
    assert [name for name in names if name not in ("folder", "file", "origins", "unread")] == [key.name for key in KEYS]
