"""What a step's rows are made by: which changes of a function or of a query count."""

import importlib.util
import itertools
import json
import textwrap
from dataclasses import replace
from hashlib import sha256

import pytest

import seamark as sm
from seamark.errors import InvalidStep
from seamark.steps.definition.definition import (
    Definition,
    difference,
    from_chain,
    function_text,
    normal_sql,
    source_and_digest,
)

NUMBERS = itertools.count()


# --- the normal form of a function ------------------------------------------------------------------------------------


@pytest.fixture
def function_of(tmp_path):
    """Gives the function `step` of a file of the project with this text."""

    def load(text: str):
        name = f"project_{next(NUMBERS)}"
        path = tmp_path / f"{name}.py"
        path.write_text(textwrap.dedent(text))
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.step

    return load


def digest_of(function, version=None) -> str:
    return source_and_digest("shout", function, version)[1]


PLAIN = """
    def louder(text):
        return text.upper()

    def step(posts):
        return louder(posts)
"""


@pytest.mark.scenario("X81")
@pytest.mark.parametrize(
    "text",
    [
        """
        def louder(text):  # by request
            return text.upper()

        def step(posts):
            # aloud
            return louder(posts)
        """,
        '''
        def louder(text):
            """Louder."""
            return text.upper()

        def step(posts):
            """All of it."""
            return louder(posts)
        ''',
        """
        def louder( text ) :
          return (text
             .upper())

        def step(posts):
          return louder(
            posts,
          )
        """,
        """
        def step(posts):
            return louder(posts)

        def louder(text):
            return text.upper()

        def unused():
            return 1
        """,
    ],
    ids=["comments", "docstrings", "formatting", "order and strangers"],
)
def test_comments_docstrings_and_layout_do_not_count(function_of, text):
    assert digest_of(function_of(text)) == digest_of(function_of(PLAIN))


@pytest.mark.scenario("X81")
@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("text.upper()", "text.title()"),
        ("louder(posts)", "louder(posts) + '!'"),
        ("louder(posts)", "louder(  posts, posts)"),
    ],
    ids=["a helper", "the function", "an argument"],
)
def test_a_change_of_the_function_or_of_a_helper_counts(function_of, older, newer):
    assert digest_of(function_of(PLAIN.replace(older, newer))) != digest_of(function_of(PLAIN))


@pytest.mark.scenario("X81")
def test_helpers_are_found_behind_helpers_decorators_closures_and_modules(function_of):
    text = """
        import functools, types

        def deepest(text):
            return text + "1"

        def told(function):
            @functools.wraps(function)
            def inner(*given):
                return function(*given)
            return inner

        @told
        def deep(text):
            return deepest(text)

        tools = types.ModuleType("tools")
        tools.deep = deep

        def make():
            def near(text):
                return tools.deep(text)

            def step(posts):
                return near(posts) if posts else step(posts)

            return step

        step = make()
    """
    assert digest_of(function_of(text)) == digest_of(function_of(text))
    assert digest_of(function_of(text.replace('"1"', '"2"'))) != digest_of(function_of(text))


@pytest.mark.scenario("X81")
def test_a_helper_passed_on_as_a_value_and_one_behind_a_udf_count(function_of, spark):
    text = """
        from pyspark.sql import functions as F

        def shouted(text):
            return text.upper()

        def named(frame):
            return frame

        shout = F.udf(shouted, "string")

        def step(posts):
            return posts.transform(named).withColumn("content", shout("content"))
    """
    same = digest_of(function_of(text))
    assert digest_of(function_of(text)) == same
    assert digest_of(function_of(text.replace("upper", "lower"))) != same
    assert digest_of(function_of(text.replace("return frame", "return frame.distinct()"))) != same


@pytest.mark.scenario("X81")
def test_functions_of_python_and_of_packages_are_not_followed(function_of):
    text = """
        import json
        from pandas import concat

        def step(posts):
            return json.dumps(concat([posts]))
    """
    others = text.replace("from pandas import concat", "concat = len").replace("import json", "import pickle as json")
    assert digest_of(function_of(text)) == digest_of(function_of(others))


@pytest.mark.scenario("X81")
def test_a_lambda_counts_by_its_body(function_of):
    one = digest_of(function_of("step = lambda posts: posts"))
    assert digest_of(function_of("step = (\n    lambda posts: posts  # as it is\n)")) == one
    assert digest_of(function_of("step = lambda posts: posts + 1")) != one
    assert digest_of(function_of("other, step = lambda posts: 1, lambda posts: posts")) == one


@pytest.mark.scenario("X81")
def test_a_function_without_source_needs_a_version(ds):
    posts = ds.table("posts", "post_id long", key="post_id")
    feed = ds.table("feed", "post_id long", key="post_id")
    at_a_prompt = {}
    exec("def shout(posts):\n    return posts", at_a_prompt)
    with pytest.raises(
        InvalidStep, match=r"step 'shout': the source of its function shout is not available"
    ) as refused:
        ds.add(sm.BatchTransform(at_a_prompt["shout"], inputs=[posts], outputs=[feed]))
    assert 'version="1"' in refused.value.hint
    assert ds.step_names() == []
    assert ds.add(sm.BatchTransform(at_a_prompt["shout"], inputs=[posts], outputs=[feed], version="1")).name == "shout"


@pytest.mark.scenario("X81")
@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("SELECT id,\n       text -- the text's line\nFROM {posts}\n", "SELECT id, text FROM {posts}"),
        ("SELECT /* all\n of it */ * FROM {posts}", "SELECT * FROM {posts}"),
        ("SELECT /*+ BROADCAST(p) */ 1", "SELECT /*+ BROADCAST(p) */ 1"),
        ("SELECT 'a  --  b',  \"c  /* d */\",  `e  f`", "SELECT 'a  --  b', \"c  /* d */\", `e  f`"),
        ("SELECT 'it''s  a',  'it\\'s  b'", "SELECT 'it''s  a', 'it\\'s  b'"),
        ("SELECT r'a\\',  'b  c'", "SELECT r'a\\', 'b  c'"),
        ("SELECT a - - b, 'open  --", "SELECT a - - b, 'open"),
    ],
)
def test_comments_and_layout_of_sql_do_not_count_and_what_is_quoted_does(text, normal):
    assert normal_sql(text) == normal


def definition(**changed) -> Definition:
    told = {
        "step": "shout",
        "kind": "python",
        "function": "shout",
        "source": "def shout(posts):\n    return posts\n",
        "digest": "one",
        "inputs": (("posts", False, ()), ("profiles", True, (("user_id", "id"),))),
        "outputs": ("feed",),
        "keys": ("post_id",),
    }
    return Definition(**{**told, **changed})


@pytest.mark.scenario("X81")
def test_where_a_version_is_given_it_alone_decides():
    one = definition(version="1")
    assert one.agrees_with(definition(version="1", digest="two", source="another"))
    assert not one.agrees_with(definition(version="2"))
    assert not one.agrees_with(definition(version="1", keys=("user_id",)))
    assert not one.agrees_with(definition(version="1", outputs=("feed", "words")))


@pytest.mark.scenario("X94")
def test_a_definition_of_the_first_form_is_compared_in_that_form():
    today = definition(digest="fine", first_digest="coarse")
    before = definition(digest="coarse", form=1)
    assert today.agrees_with(before)
    assert before.agrees_with(today)
    assert not today.is_recorded_as(before)  # the next commit records it in the finer form
    assert today.is_recorded_as(definition(digest="fine"))
    assert not today.agrees_with(definition(digest="other", form=1))
    assert not definition(digest="fine").agrees_with(definition(digest="fine", form=1))


@pytest.mark.scenario("X94")
def test_a_chain_that_does_not_say_the_form_of_its_digest_holds_the_first(function_of):
    event = definition(digest="coarse").set_transform({"posts": "did:odf:1", "profiles": "did:odf:2"})
    head, body = event.transform.queries
    facts = {name: fact for name, fact in json.loads(head.query).items() if name != "form"}
    queries = (replace(head, query=json.dumps(facts)), body)
    older = replace(event, transform=replace(event.transform, queries=queries))
    assert from_chain(older).form == 1
    assert function_text("shout", function_of(PLAIN), None).first_digest == (
        "dbcc230007ea1a7a9ee97cc9a508664cb2902b99e570f738110ad6a435edfb24"
    )


@pytest.mark.scenario("L54")
def test_a_definition_comes_back_from_its_event_as_it_was():
    one = definition(version="1", source="SELECT 'ä' FROM {posts}")
    event = one.set_transform({"posts": "did:odf:1", "profiles": "did:odf:2"})
    assert [(entry.alias, entry.dataset_ref) for entry in event.inputs] == [
        ("posts", "did:odf:1"),
        ("profiles", "did:odf:2"),
    ]
    assert from_chain(event) == one


@pytest.mark.scenario("X69")
def test_the_difference_names_everything_that_changed():
    newer = definition(
        kind="pandas",
        digest="two",
        source="def shout(posts):\n    return posts.distinct()\n",
        inputs=(("posts", False, ()),),
        keys=(),
    )
    told = difference(definition(), newer)
    assert "kind: python -> pandas" in told
    assert "keys: post_id -> none" in told
    assert "inputs: posts, profiles (required) by {'user_id': 'id'} -> posts" in told
    assert "-    return posts\n+    return posts.distinct()" in told
    assert (
        difference(definition(), definition(digest="two")) == "a function, class or constant that it uses has changed"
    )


@pytest.mark.scenario("X81")
def test_the_digest_does_not_hang_on_the_version_of_python(function_of):
    """Python 3.12 and 3.13 each changed which empty fields a syntax tree has, and which of them are shown."""
    known = "Name(id='posts', ctx=Load())"
    normal = f"FunctionDef(name='_', args=arguments(args=[arg(arg='posts')]), body=[Return(value={known})])"
    assert digest_of(function_of("def step(posts):\n    return posts")) == sha256(normal.encode()).hexdigest()
