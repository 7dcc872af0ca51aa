"""How the command line behaves, whatever the verb: projects, exit codes, help, errors, pipes and secrets."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import seamark

VERBS = [
    *("init", "plan", "run", "failures", "retry", "reset"),
    *("ls", "log", "show", "status", "why"),
    *("check", "sql", "scan", "view", "verify", "heads", "fold", "gc", "doctor"),
]
IN_A_PROJECT = [
    *(["plan"], ["run"], ["failures"], ["retry", "process_posts"], ["reset", "process_posts"]),
    *(["ls"], ["log", "posts"], ["show", "posts"], ["status"], ["why", "feed", "post_id=1"]),
    *(["sql", "v"], ["scan", "v"], ["view", "ls"], ["verify"], ["heads"], ["fold"], ["gc"], ["doctor"]),
]


# --- the project ------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("C2")
@pytest.mark.parametrize("arguments", IN_A_PROJECT, ids=lambda words: words[0])
def test_outside_a_project_each_verb_says_where_it_looked(call, tmp_path, arguments):
    told = call(*arguments, folder=tmp_path)

    assert (told.code, told.out) == (2, "")
    assert "seamark.toml" in told.err
    assert str(tmp_path) in told.err
    assert "`seamark init" in told.err


@pytest.mark.scenario("C2")
def test_the_project_is_found_from_a_folder_below_and_by_option(call, project, tmp_path):
    below = project / "a" / "b"
    below.mkdir(parents=True)
    assert call("ls", folder=below).code == 0
    assert call("--project", str(project), "ls", folder=tmp_path).code == 0
    assert call("ls", "--project", str(project), folder=tmp_path).code == 0

    missing = call("ls", "--project", str(project / "nope"), folder=tmp_path)
    assert missing.code == 2
    assert "there is no folder" in missing.err


@pytest.mark.scenario("C3")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('warehuose = "w"', ["line 4", "unknown key 'warehuose'", "did you mean 'warehouse'"]),
        ('block_rows = "many"', ["line 4", "'block_rows' must be a whole number", "many"]),
        ("control = = 1", ["line 4", "not TOML"]),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_line(call, project, line, words):
    file = project / "seamark.toml"
    file.write_text(file.read_text() + line + "\n")

    told = call("ls", folder=project)

    assert told.code == 2
    assert all(word in told.err for word in [str(file), *words])


@pytest.mark.scenario("C4")
@pytest.mark.parametrize(
    ("pipeline", "words"),
    [
        ("nope.py:ds", ["nope.py is not there", "seamark.toml, line 1"]),
        ("pipeline.py:dss", ["variable 'dss'", "does not exist", "did you mean 'ds'"]),
        ("pipeline.py:posts", ["variable 'posts'", "is a Table, not a DataStore"]),
        ("pipeline.py", ["not a file and a variable", 'pipeline = "pipeline.py:ds"']),
    ],
)
def test_a_pipeline_that_is_not_there_is_named(call, empty_project, pipeline, words):
    (empty_project / "seamark.toml").write_text(f'pipeline = "{pipeline}"\n')

    told = call("ls", folder=empty_project)

    assert told.code == 2
    assert all(word in told.err for word in words)


@pytest.mark.scenario("C4")
def test_a_pipeline_that_raises_shows_the_users_own_stack_trace(call, empty_project):
    (empty_project / "pipeline.py").write_text("def half(n):\n    return 1 / n\n\n\nds = half(0)\n")

    told = call("ls", folder=empty_project)

    assert (told.code, told.out) == (1, "")
    assert "return 1 / n" in told.err
    assert "pipeline.py, line 5: ZeroDivisionError: division by zero" in told.err
    assert "importlib" not in told.err
    assert "seamark/cli" not in told.err


@pytest.mark.scenario("C4")
def test_a_pipeline_that_is_not_python_or_ends_the_program_fails(call, empty_project):
    (empty_project / "pipeline.py").write_text("ds = (\n")
    told = call("ls", folder=empty_project)
    assert told.code == 1
    assert "SyntaxError" in told.err

    (empty_project / "pipeline.py").write_text("raise SystemExit(0)\n")
    assert call("ls", folder=empty_project).code == 1


@pytest.mark.scenario("C5")
def test_the_environment_wins_over_the_file_wherever_the_command_is_called(project, tmp_path, command):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    variables = {"SEAMARK_WAREHOUSE": "w", "SEAMARK_CONTROL": "sqlite:///c.db"}

    told = command("ls", "--json", "--project", str(project), folder=elsewhere, **variables)

    # relative to where it was called, and a store of its own: nothing was ever written there, nor is now
    assert told.code == 0, told.err
    assert {table["sequence"] for table in told.document["tables"]} == {None}
    assert not list(elsewhere.iterdir())
    assert not (project / "c.db").exists()


# --- help -------------------------------------------------------------------------------------------------------------

_WITHOUT_SPARK = """
import sys
from pathlib import Path
from seamark.cli import run
code = run(sys.argv[1:])
assert not {"pyspark", "py4j", "sqlalchemy", "pyarrow"} & set(sys.modules), "help needs nothing of these"
sys.exit(code)
"""


@pytest.mark.scenario("C6")
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(tmp_path, verb):
    told = subprocess.run(
        [sys.executable, "-c", _WITHOUT_SPARK, verb, "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert told.returncode == 0, told.stderr
    assert f"Example: seamark {verb}" in told.stdout
    assert all(option in told.stdout for option in ("--json", "--debug", "--project", "--log-json"))


@pytest.mark.scenario("C6")
def test_the_command_alone_lists_the_verbs(call, tmp_path):
    told = call(folder=tmp_path)

    assert told.code == 0
    assert all(f" {verb} " in told.out for verb in VERBS)
    assert list(call("--json").document["verbs"]) == VERBS


@pytest.mark.scenario("C6")
def test_the_version_is_printed(call, tmp_path):
    assert call("--version", folder=tmp_path).out == f"seamark {seamark.__version__}\n"
    assert call("--version", "--json").document == {"version": seamark.__version__}


@pytest.mark.scenario("C6")
def test_help_is_quick_and_the_module_is_the_command_too(tmp_path):
    took = []
    for _ in range(3):
        begun = os.times()
        told = subprocess.run(
            [sys.executable, "-m", "seamark", "--help"], cwd=tmp_path, capture_output=True, check=True
        )
        ended = os.times()
        took.append(ended.children_user + ended.children_system - begun.children_user - begun.children_system)
    assert b"seamark" in told.stdout
    assert min(took) < 0.5  # seconds of processor, so that a busy machine does not matter


# --- used wrongly -----------------------------------------------------------------------------------------------------


@pytest.mark.scenario("C7")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["statsu"], ["there is no verb 'statsu'", "did you mean 'status'", "verify"]),
        (["ls", "--jsno"], ["`seamark ls` has no option '--jsno'", "did you mean '--json'"]),
        (["log", "posts", "--limt", "3"], ["has no option '--limt'", "did you mean '--limit'"]),
        (["--jsn", "ls"], ["has no option '--jsn'", "did you mean '--json'"]),
        (["log"], ["Missing argument 'TABLE|STEP'", "`seamark log --help`"]),
        (["log", "posts", "--limit", "many"], ["--limit", "integer"]),
        (["log", "posts", "--limit", "0"], ["--limit", "greater than or equal to 1"]),
        (["log", "posts", "--events", "shcema"], ["there is no kind of event 'shcema'", "did you mean 'schema'"]),
        (["gc", "--grace", "soon"], ["--grace is 'soon'", "1d"]),
        (["show", "posts", "--as-of", "2", "--block", "f16"], ["do not go together"]),
        (["doctor", "--yes"], ["--yes goes with --rebuild"]),
        (["log", "psots"], ["there is no table 'psots'", "did you mean 'posts'", "clicks, feed, posts, profiles"]),
        (["show", "psots"], ["there is no table 'psots'"]),
        (["show", "../posts"], ["there is no table '../posts'"]),
        (["verify", "psots"], ["there is no table 'psots'"]),
        (["why", "psots", "post_id=1"], ["there is no table 'psots'"]),
        (["run", "process"], ["there is no step 'process'", "Steps: none"]),
        (["fold", "posts", "psots"], ["there is no table 'psots'"]),
    ],
)
def test_what_does_not_exist_is_refused_with_the_nearest_names(call, project, arguments, words):
    told = call(*arguments, folder=project)

    assert (told.code, told.out) == (2, "")
    assert all(word in told.err for word in words), told.err
    as_json = call(*arguments, "--json")
    assert as_json.code == 2
    assert words[0] in as_json.error["message"] or words[0] in str(as_json.error)


@pytest.mark.scenario("C6")
def test_help_shows_no_type_beside_an_option_that_takes_no_value(call, project):
    for verb in ((), ("plan",), ("reset",), ("verify",)):
        assert "bool" not in call(*verb, "--help", folder=project).out


# --- terminals and pipes ----------------------------------------------------------------------------------------------


@pytest.mark.scenario("C8")
def test_a_terminal_shows_a_progress_bar_and_a_pipe_does_not(project, command, on_a_terminal):
    told = on_a_terminal("verify", folder=project)
    assert told.code == 0
    assert "Verifying" in told.err
    assert "━" in told.err
    assert "\x1b[" in told.err
    assert "\x1b" not in told.out

    clock = re.findall(r"3/3 (\d+ s)", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", told.err))
    assert clock, told.err

    in_a_pipe = command("verify", folder=project)
    assert (in_a_pipe.code, in_a_pipe.err) == (0, "")
    assert "\x1b" not in in_a_pipe.out

    for_a_program = on_a_terminal("verify", "--json", folder=project)
    assert (for_a_program.code, for_a_program.err) == (0, "")
    assert for_a_program.document["ok"] is True


@pytest.mark.scenario("C8")
def test_output_into_a_file_has_no_control_codes_and_nothing_is_cut(project, command):
    text = command("doctor", folder=project).out
    assert str(project / "warehouse") in text
    assert "\x1b" not in text
    assert "…" not in text


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("C11")
def test_an_error_of_ours_is_readable_and_the_stack_trace_comes_with_debug(call, project):
    told = call("show", "clicks", "--as-of", "99", folder=project)
    assert told.code == 2
    assert told.err.startswith("Error: table 'clicks' has no record 99: its last offset is 5.")
    assert "Hint: `seamark log clicks` lists the offsets" in told.err
    assert "Traceback" not in told.err
    assert "NotACommit" not in told.err

    debugged = call("show", "clicks", "--as-of", "99", "--debug")
    assert "Traceback" in debugged.err
    assert "check_as_of" in debugged.err
    assert debugged.err.endswith(told.err)


@pytest.mark.scenario("C11")
def test_an_error_that_nobody_foresaw_is_told_in_a_line(call, project, monkeypatch):
    def broken(*_arguments, **_options):
        raise KeyError("lost")

    monkeypatch.setattr("seamark.facts.project.list_project", broken)
    told = call("ls", folder=project)
    assert told.code == 1
    assert "unexpected KeyError: 'lost'" in told.err
    assert "--debug" in told.err
    assert call("ls", "--json").error["type"] == "KeyError"


@pytest.mark.scenario("C11")
def test_control_c_is_a_short_line(call, project, monkeypatch):
    def interrupted(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("seamark.facts.project.list_project", interrupted)
    told = call("ls", folder=project)
    assert told.code == 1
    assert told.err.startswith("Error: interrupted.")


def test_what_a_pipeline_prints_does_not_spoil_the_json(empty_project, command):
    noise = 'import os\nprint("noise")\nos.system("echo more noise")\n'
    file = empty_project / "pipeline.py"
    file.write_text(noise + file.read_text())

    told = command("ls", "--json", folder=empty_project)

    assert [table["name"] for table in told.document["tables"]] == ["clicks", "posts", "profiles"]
    assert "noise" in told.err


# --- secrets ----------------------------------------------------------------------------------------------------------

SECRET = "hunter2-p@ss/w:rd"
ESCAPED = "hunter2-p%40ss%2Fw%3Ard"


def outputs_with(call, folder, *arguments):
    for flags in ([], ["--json"], ["--debug"], ["--log-json", "-v"], ["--json", "--debug"]):
        told = call(*arguments, *flags, folder=folder)
        yield told
        assert "hunter2" not in told.out + told.err


@pytest.mark.scenario("C9")
@pytest.mark.parametrize("origin", ["file", "environment", "program"])
@pytest.mark.parametrize("password", [ESCAPED, SECRET], ids=["escaped", "plain"])
def test_a_wrong_password_is_shown_nowhere(call, empty_project, monkeypatch, postgres, origin, password):
    host = postgres.rpartition("@")[2]
    url = f"postgresql+psycopg://seamark:{password}@{host}"
    if origin == "file":
        (empty_project / "seamark.toml").write_text(f'control = "{url}"\n')
    elif origin == "environment":
        monkeypatch.setenv("SEAMARK_CONTROL", url)
    else:
        (empty_project / "pipeline.py").write_text(f'import seamark as sm\nds = sm.DataStore("{url}")\n')

    for told in outputs_with(call, empty_project, "ls"):
        assert told.code == 1
    if origin != "program":
        for told in outputs_with(call, empty_project, "doctor"):
            assert told.code == 1
            assert "***" in told.out


@pytest.mark.scenario("C9")
def test_a_right_password_is_shown_nowhere_either(call, empty_project, postgres_url):
    password = postgres_url.split(":")[2].partition("@")[0]
    (empty_project / "seamark.toml").write_text(f'control = "{postgres_url}"\n')

    told = call("doctor", folder=empty_project)

    assert told.code == 0, told.out
    assert f"postgres:***@{postgres_url.rpartition('@')[2]}" in told.out
    assert f":{password}@" not in told.out + told.err


@pytest.mark.scenario("C9")
def test_a_stack_trace_of_the_users_own_program_hides_it_too(call, empty_project):
    program = f'url = "postgresql://me:{SECRET}@host/db"\nraise ValueError("no: postgresql://me:{SECRET}@host/db")\n'
    (empty_project / "pipeline.py").write_text(program)

    for told in outputs_with(call, empty_project, "ls"):
        assert told.code == 1
        assert "me:***@host/db" in told.out + told.err


# --- odd surroundings -------------------------------------------------------------------------------------------------


def test_a_terminal_without_our_signs_and_a_reader_that_goes_away_are_no_errors(command, project):
    told = command("verify", folder=project, PYTHONIOENCODING="ascii")
    assert (told.code, told.err) == (0, "")
    assert "11 blocks of 3 tables" in told.out

    program = Path(sys.executable).with_name("seamark")
    shown = subprocess.run(f"{program} doctor | head -1", shell=True, cwd=project, capture_output=True, text=True)
    assert shown.stderr == ""


@pytest.mark.scenario("C3")
@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite://seamark.db", ["names a host, and SQLite has files", "sqlite:///seamark.db"]),
        ("mysql://host/db", ["'mysql', which Seamark does not speak"]),
        ("nonsense", ["URL cannot be read"]),
    ],
)
def test_a_control_url_that_cannot_be_used_is_a_mistake_in_the_file(call, empty_project, url, words):
    (empty_project / "seamark.toml").write_text(f'pipeline = "pipeline.py:ds"\ncontrol = "{url}"\n')
    told = call("status", folder=empty_project)
    assert told.code == 2
    assert all(word in told.err for word in words)
    assert "Traceback" not in told.err


def test_a_misspelt_variable_is_told_and_those_of_others_are_not(command, empty_project):
    told = command("ls", folder=empty_project, SEAMARK_WAREHOSE="elsewhere", SEAMARK_SERVICE_HOST="10.0.0.1")
    assert told.code == 0
    assert told.err == (
        "Warning: the environment variable SEAMARK_WAREHOSE is not a setting and was not used: "
        "did you mean SEAMARK_WAREHOUSE?\n"
    )


@pytest.mark.parametrize("program", ["seamark", "python"])
def test_what_may_be_a_mistake_is_said_once(command, empty_project, program):
    pipeline = empty_project / "pipeline.py"
    pipeline.write_text(
        pipeline.read_text()
        + """
counts = ds.table("counts", "what string, n long", key="what")


@ds.transform(inputs=[posts], outputs=[counts])
def count(posts):
    return posts.groupBy().count().selectExpr("'posts' AS what", "count AS n")
"""
    )
    if program == "seamark":
        told = command("plan", folder=empty_project).err
    else:
        told = subprocess.run(
            [sys.executable, "pipeline.py"], cwd=empty_project, capture_output=True, text=True, check=True
        ).stderr
    assert told.count("so that all of it is one result") == 1


def test_show_says_that_values_are_cut(call, project, monkeypatch):
    whole = call("show", "clicks", folder=project).out
    assert "…" not in whole
    monkeypatch.setenv("COLUMNS", "24")
    cut = call("show", "clicks").out
    assert "… where a value does not fit; --json shows all of it." in " ".join(cut.split())


def test_recompute_without_a_changed_definition_says_what_to_do(call, empty_project, spark):
    told = call("run", "--on-change", "recompute", folder=empty_project)
    assert "`seamark reset STEP` has all keys computed again" in " ".join(told.err.split())
