"""`seamark init`: a project that runs at once."""

import runpy
import sys

import pytest

FILES = [".gitignore", "data/posts.csv", "data/profiles.csv", "pipeline.py", "seamark.toml"]


def files_of(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.scenario("C1")
def test_init_makes_a_project_and_says_what_to_do_next(call, tmp_path):
    told = call("init", "demo", folder=tmp_path)

    assert told.code == 0
    assert files_of(tmp_path / "demo") == FILES
    assert "cd demo" in told.out
    assert "python pipeline.py" in told.out

    listed = call("ls", "--json", folder=tmp_path / "demo").document
    assert [table["name"] for table in listed["tables"]] == ["posts", "profiles"]


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
def test_the_new_project_runs_at_once_from_any_folder(call, tmp_path, spark, capsys):
    call("init", "demo", folder=tmp_path)
    demo = tmp_path / "demo"

    runpy.run_path(str(demo / "pipeline.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert "posts: +5 ~0 -0" in said
    assert "Good morning from the harbour" in said
    assert "6 blocks verified, 0 findings" in said
    assert files_of(tmp_path) == files_of(tmp_path)
    assert not (tmp_path / "seamark.db").exists()

    posts = demo / "data" / "posts.csv"
    posts.write_text(posts.read_text().replace("Good morning", "Good evening"))
    runpy.run_path(str(demo / "pipeline.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert "posts: +0 ~1 -0" in said
    assert "profiles: nothing differs" in said

    for verb in (["ls"], ["status"], ["show", "posts"], ["verify"]):
        assert call(*verb, folder=demo).code == 0
    sys.modules.pop("pipeline", None)
