"""`seamark init`: a project that runs at once."""

import subprocess
import sys

import pytest

FILES = [".gitignore", "data/posts.csv", "data/profiles.csv", "load.py", "pipeline.py", "seamark.toml"]


def files_of(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.scenario("C1")
def test_init_makes_a_project_and_says_what_to_do_next(call, tmp_path):
    told = call("init", "demo", folder=tmp_path)

    assert told.code == 0
    assert files_of(tmp_path / "demo") == FILES
    assert "cd demo" in told.out
    assert "python load.py" in told.out
    assert "seamark run" in told.out

    listed = call("ls", "--json", folder=tmp_path / "demo").document
    assert [table["name"] for table in listed["tables"]] == ["feed", "posts", "profiles"]
    assert [step["name"] for step in listed["steps"]] == ["process_posts"]


@pytest.mark.scenario("C1")
@pytest.mark.parametrize("standing", FILES)
def test_init_overwrites_nothing(call, tmp_path, standing):
    file = tmp_path / "demo" / standing
    file.parent.mkdir(parents=True)
    file.write_text("mine")

    told = call("init", "demo", folder=tmp_path)

    assert told.code == 2
    assert standing in told.err
    assert files_of(tmp_path / "demo") == [standing]
    assert file.read_text() == "mine"


@pytest.mark.scenario("C1")
def test_init_into_a_file_is_refused(call, tmp_path):
    (tmp_path / "demo").write_text("mine")
    assert call("init", "demo", folder=tmp_path).code == 2
    assert (tmp_path / "demo").read_text() == "mine"


@pytest.mark.scenario("C1")
def test_the_new_project_runs_at_once_from_any_folder(call, tmp_path, spark):
    call("init", "demo", folder=tmp_path)
    demo = tmp_path / "demo"
    empty = call("run", folder=demo)
    assert (empty.code, empty.out) == (0, "Nothing to do: posts, profiles have no records yet.\n")

    assert "posts: +5 ~0 -0, block 2\nprofiles: +3 ~0 -0" in load(demo, tmp_path)
    assert "posts: nothing differs" in load(demo, tmp_path)
    assert not (tmp_path / "seamark.db").exists()

    told = call("run", folder=demo)
    assert told.code == 0
    assert told.out.splitlines()[-1].split()[:7] == ["✓", "process_posts", "all", "keys", "5", "1", "8"]
    rows = call("show", "feed", "--json").document["rows"]
    assert rows[0] == {"post_id": 1, "line": "Alice: Good morning from the harbour"}
    for verb in (["run"], ["why", "feed", "post_id=1"], ["verify", "--replay"]):
        assert call(*verb).code == 0


def load(demo, folder):
    told = subprocess.run([sys.executable, demo / "load.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    return told.stdout
