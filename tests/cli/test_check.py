"""`check`: the issues of views."""

import pytest

GOOD = "CREATE MATERIALIZED VIEW lines PRIMARY KEY (post_id) AS\nSELECT p.post_id, p.content FROM posts p;\n"
WARNED = "CREATE ASYNC MATERIALIZED VIEW v AS\nSELECT p.post_id AS post_id FROM posts AS p;\n"
WRONG = "CREATE MATERIALIZED VIEW w AS\n\tSELECT post_id, nope FROM posts;\n"


@pytest.fixture
def views(blog):
    (blog / "views").mkdir()
    (blog / "views" / "good.sql").write_text(GOOD)
    (blog / "wrong.sql").write_text(WRONG)
    (blog / "warned.sql").write_text(WARNED)
    return blog


@pytest.mark.scenario("C19")
def test_all_issues_with_file_line_column_and_severity_and_errors_end_with_1(call, views):
    told = call("check", "wrong.sql", "views", "warned.sql", "--no-analysis", folder=views)

    assert told.code == 1
    assert "wrong.sql:2:18: error IllegalOutputReference: " in told.out
    assert "warned.sql:1:32: warning UselessView: " in told.out
    assert told.out.index("warned.sql:1:32") < told.out.index("wrong.sql:2:18")
    lines = told.out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.lstrip().startswith("SELECT post_id, nope"))
    assert lines[at + 1].strip() == "^"
    assert "1 error, 2 warnings" in lines[-2]
    assert "Not checked because of errors before: analysis." in lines[-1]

    document = call("check", "wrong.sql", "views", "warned.sql", "--no-analysis", "--json").document
    assert (document["ok"], document["errors"], document["skipped"]) == (False, 1, ["analysis"])
    (wrong,) = [issue for issue in document["issues"] if issue["severity"] == "error"]
    assert (wrong["source"], wrong["line"], wrong["column"], wrong["kind"]) == (
        "wrong.sql",
        2,
        18,
        "IllegalOutputReference",
    )


@pytest.mark.scenario("C19")
def test_warnings_alone_end_with_0(call, views):
    told = call("check", "warned.sql", "--no-analysis", folder=views)
    assert told.code == 0
    assert "warning UselessView" in told.out
    assert "Not checked: analysis." in told.out


@pytest.mark.scenario("C19")
def test_nothing_wrong_is_said_too(call, views):
    told = call("check", "views", folder=views)
    assert (told.code, told.out.strip()) == (0, "✓ views: no issues")


def test_a_file_that_is_not_there(call, views):
    told = call("check", "views/nope.sql", folder=views)
    assert told.code == 1
    assert "views/nope.sql cannot be read: no such file" in told.err
