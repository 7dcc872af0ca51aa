"""What counts as a change of a function: all of the project that its result depends on, however it gets there."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import seamark as sm
from seamark.steps.definition.definition import Definition, source_and_digest
from seamark.steps.definition.form import form_of

pytestmark = pytest.mark.scenario("X94")


def digest_of(function: Any) -> str:
    return source_and_digest("step", function, None)[1]


HELPER = "def clean(x):\n    return x + 1\n"

# Each is a program in which the 1 that counts can be made a 2. A `pk` is a package of the same project.
PROGRAMS = {
    "a helper below the step": "def step(x): return helper(x)\ndef helper(x): return x + 1\n",
    "a constant of the module": "RATE = 1\ndef step(x): return x * RATE\n",
    "a constant in a list": "RATES = [0, [1]]\ndef step(x): return x * RATES[1][0]\n",
    "a constant in a dict": "RATES = {'a': {1}}\ndef step(x): return x * max(RATES['a'])\n",
    "a text": "NAME = 'a 1'\ndef step(x): return NAME\n",
    "a pattern": "import re\nNAME = re.compile('a 1')\ndef step(x): return NAME.sub(x)\n",
    "a day": "from datetime import date\nDAY = date(2020, 1, 1)\ndef step(x): return x > DAY\n",
    "an array": "import numpy as np\nRATES = np.array([1.0, 3.0])\ndef step(x): return x * RATES\n",
    "a schema": "from pyspark.sql.types import *\nT = DecimalType(11, 1)\ndef step(x): return x.cast(T)\n",
    "a constant of a closure": "def make(n):\n    def inner(x): return x + n\n    return inner\nstep = make(1)\n",
    "a helper in a closure": """
        def make(f):
            def inner(x): return f(x)
            return inner
        def helper(x): return x + 1
        step = make(helper)
    """,
    "a default": "RATE = 1\ndef step(x, rate=RATE): return x * rate\n",
    "a default by name": "RATE = 1\ndef step(x, *, rate=RATE): return x * rate\n",
    "a class method": """
        class Cleaner:
            @classmethod
            def clean(cls, x): return x + cls.rate
            rate = 1
        def step(x): return Cleaner.clean(x)
    """,
    "a static method": """
        class Cleaner:
            @staticmethod
            def clean(x): return x + 1
        def step(x): return Cleaner.clean(x)
    """,
    "a method of an object made on the way": """
        class Cleaner:
            def clean(self, x): return self._more(x)
            def _more(self, x): return x + 1
        def step(x): return Cleaner().clean(x)
    """,
    "a method of an object of the module": """
        class Cleaner:
            def clean(self, x): return self._more(x)
            def _more(self, x): return x + 1
        cleaner = Cleaner()
        def step(x): return cleaner.clean(x)
    """,
    "the state of an object": """
        class Scale:
            def __init__(self, rate): self.rate = rate
            def by(self, x): return x * self.rate
        scale = Scale(1)
        def step(x): return scale.by(x)
    """,
    "the state of an object in slots": """
        from dataclasses import dataclass
        @dataclass(frozen=True, slots=True)
        class Scale:
            rate: int
        scale = Scale(1)
        def step(x): return x * scale.rate
    """,
    "a property": """
        class Scale:
            @property
            def rate(self): return 1
        scale = Scale()
        def step(x): return x * scale.rate
    """,
    "a method of the class above": """
        class Base:
            def clean(self, x): return x + 1
        class Cleaner(Base):
            def clean(self, x): return super().clean(x)
        cleaner = Cleaner()
        def step(x): return cleaner.clean(x)
    """,
    "an object that is called": """
        class Scale:
            def __call__(self, x): return x * 1
        scale = Scale()
        def step(x): return scale(x)
    """,
    "an enumeration": """
        from enum import Enum
        class Rate(Enum):
            LOW = 1
        def step(x): return x * Rate.LOW.value
    """,
    "a default of a data class": """
        from dataclasses import dataclass
        @dataclass
        class Scale:
            rate: int = 1
        def step(x): return x * Scale().rate
    """,
    "a function in a dict": "TABLE = {'c': lambda x: x + 1, 'd': lambda x: x}\ndef step(x): return TABLE['c'](x)\n",
    "a function in a list": "def f(x): return x + 1\nTABLE = [(f,)]\ndef step(x): return TABLE[0][0](x)\n",
    "a partial": """
        from functools import partial
        def f(n, x): return x + n
        g = partial(f, 1)
        def step(x): return g(x)
    """,
    "a function in a partial": """
        from functools import partial
        def f(n, x): return x + n + 1
        g = partial(f, n=3)
        def step(x): return g(x)
    """,
    "a partial that is the step": "from functools import partial\ndef f(n, x): return x + n\nstep = partial(f, 1)\n",
    "a method that is the step": """
        class Scale:
            def __init__(self, rate): self.rate = rate
            def by(self, x): return x * self.rate
        step = Scale(1).by
    """,
    "a decorator": """
        import functools
        def deco(fn):
            @functools.wraps(fn)
            def w(x): return fn(x) + 1
            return w
        @deco
        def step(x): return x
    """,
    "a decorator that says nothing of what it wraps": """
        def deco(fn):
            def w(x): return fn(x)
            return w
        @deco
        def step(x): return x + 1
    """,
    "an argument of a decorator": """
        def plus(n):
            def deco(fn):
                def w(x): return fn(x) + n
                return w
            return deco
        @plus(1)
        def step(x): return x
    """,
    "a cached function": "import functools\n@functools.cache\ndef f(x): return x + 1\ndef step(x): return f(x)\n",
    "a computed member of an enumeration": """
        from enum import Enum
        BASE = 1
        class Rate(Enum):
            LOW = BASE * 3
        def step(x, rate=Rate.LOW): return x * rate.value
    """,
    "computed members of an enumeration that is gone through": """
        from enum import Enum
        def base(): return 1
        class Rate(Enum):
            LOW = base()
        def step(x): return [rate.value * x for rate in Rate]
    """,
    "what makes a default of a data class": """
        from dataclasses import dataclass, field
        def rates(): return [1]
        @dataclass
        class Rates:
            all: list = field(default_factory=rates)
        def step(x): return x * sum(Rates().all)
    """,
    "what a nameless function makes a default of a data class from": """
        from dataclasses import dataclass, field
        def rates(): return [1]
        @dataclass
        class Rates:
            all: list = field(default_factory=lambda: rates())
        def step(x): return x * sum(Rates().all)
    """,
    "a dispatched method": """
        import functools
        def rate(): return 1
        class Price:
            @functools.singledispatchmethod
            def of(self, x): return x
            @of.register
            def _(self, x: int): return x * rate()
        def step(x): return Price().of(x)
    """,
    "a default of a data class with slots": """
        from dataclasses import dataclass
        RATE = 1
        @dataclass(slots=True)
        class Rates:
            low: int = RATE
        def step(x): return x * Rates().low
    """,
    "what makes an object": """
        RATE = 1
        class Rates:
            def __new__(cls):
                made = super().__new__(cls)
                made.low = RATE
                return made
        def step(x): return x * Rates().low
    """,
    "what a class gives for a name in brackets": """
        RATE = 1
        class Rates:
            def __class_getitem__(cls, name): return RATE
        def step(x): return x * Rates["low"]
    """,
    "what an enumeration does with a value that it does not have": """
        from enum import Enum
        DEFAULT = 1
        class Rate(Enum):
            LOW = 3
            @classmethod
            def _missing_(cls, value): return cls.LOW if value == DEFAULT else None
        def step(x): return Rate(x)
    """,
    "a default of a named tuple": """
        from typing import NamedTuple
        RATE = 1
        class Rates(NamedTuple):
            low: int = RATE
        def step(x): return x * Rates().low
    """,
    "a dispatched function": """
        import functools
        @functools.singledispatch
        def f(x): return x
        @f.register
        def _(x: int): return x + 1
        def step(x): return f(x)
    """,
    "a class inside the function": """
        RATE = 1
        def step(x):
            class Inner:
                def rate(self): return RATE
            return x * Inner().rate()
    """,
    "a constant in a comprehension": "RATE = 1\ndef step(x): return [y * RATE for y in x]\n",
    "a module that is handed on": """
        import sys
        RATE = 1
        ME = sys.modules[__name__]
        def step(x): return getattr(ME, "RATE")
    """,
}
FROM_A_PACKAGE = {
    "by its name": "from pk.deep.text import clean\ndef step(x): return clean(x)\n",
    "by another name": "from pk.deep.text import clean as c\ndef step(x): return c(x)\n",
    "by three attributes": "import pk.deep.text\ndef step(x): return pk.deep.text.clean(x)\n",
    "by a module": "from pk.deep import text\ndef step(x): return text.clean(x)\n",
    "imported by the function": "def step(x):\n    from pk.deep.text import clean\n    return clean(x)\n",
    "its module imported by the function": "def step(x):\n    import pk.deep.text\n    return pk.deep.text.clean(x)\n",
    "its module imported under another name": "def step(x):\n    import pk.deep.text as t\n    return t.clean(x)\n",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_change_is_seen_wherever_it_is(project: Any, program: str) -> None:
    assert "1" in program
    once = project.digest(program)
    assert project.digest(f"# a comment\n{textwrap.dedent(program)}") == once
    assert project.digest(_changed(program)) != once


def test_a_function_that_is_dispatched_to_in_another_file_is_followed(project: Any) -> None:
    steps = "from pk.deep.text import rate\ndef step(x): return rate(x)\n"
    rates = """
        import functools
        @functools.singledispatch
        def rate(x): return 0
        @rate.register
        def _(x: int): return x * 1
    """
    once = project.digest(steps, rates)
    assert project.step(steps, rates)(3) == 3
    assert source_and_digest("step", sys.modules["steps"].step, None)[1] == once  # what was called is remembered there
    assert project.digest(steps, _changed(rates)) != once


MADE_BY_PYTHON = [
    "what makes a default of a data class",
    "a default of a data class with slots",
    "a dispatched method",
    "a default of a named tuple",
]


@pytest.mark.parametrize("name", MADE_BY_PYTHON)
def test_what_python_adds_to_a_class_is_nothing_that_cannot_be_followed(project: Any, name: str) -> None:
    assert form_of(project.step(PROGRAMS[name])).unfollowed == {}


def _changed(program: str) -> str:
    before, after = program.rsplit("1", 1)
    return f"{before}2{after}"


@pytest.mark.parametrize("program", FROM_A_PACKAGE.values(), ids=FROM_A_PACKAGE)
def test_a_helper_in_a_package_is_followed(project: Any, program: str) -> None:
    once = project.digest(program, HELPER)
    assert project.digest(program, f"# the same\n{HELPER}") == once
    assert project.digest(program, _changed(HELPER)) != once


def test_names_of_the_function_itself_are_not_those_of_the_module(project: Any) -> None:
    """`posts` is a table in the module and a frame in the function: what the module's holds does not count."""
    program = """
        posts, n, found, error = [1], [1], [1], [1]
        def step(posts, *others, key=None, **more):
            for n in others:
                pass
            def inner(found=2):
                return found
            try:
                return [posts for posts in others], inner, (lambda n: n)
            except ValueError as error:
                return error
    """
    assert project.digest(program) == project.digest(program.replace("[1]", "[2]"))


def test_where_the_project_lies_does_not_count(project: Any) -> None:
    program = "from pathlib import Path\nDATA = Path(__file__).parent / 'x.csv'\nNAME = __file__[:-9]\n"
    program += "def step(x): return DATA, NAME.rpartition('/')[0]\n"
    assert project.digest(program) == project.digest(program)


def test_what_functions_write_to_is_no_constant(project: Any) -> None:
    """A cache is empty in one process and full in another: neither is a change of the function."""
    program = """
        CACHE, CALLS, COUNT = {}, [], 0
        class Meter:
            def __init__(self): self.seen = 0
            def tick(self): self.seen += 1
        meter = Meter()
        def step(x):
            global COUNT
            COUNT += 1
            CALLS.append(x)
            meter.tick()
            if x not in CACHE:
                CACHE[x] = x + 1
            return CACHE[x]
    """
    fresh = project.digest(program)
    used = project.step(program)
    for number in range(3):
        used(number)
    assert digest_of(used) == fresh
    assert form_of(used).unfollowed == {}


# --- the same in every process ----------------------------------------------------------------------------------------


def test_the_digest_is_the_same_in_every_process(tmp_path: Path) -> None:
    program = """
        from enum import Enum
        class Kind(Enum):
            A = "a"
            B = "b"
        class Thing:
            def __init__(self): self.names = {"x", "y", "z", "w"}
            def all(self): return sorted(self.names)
        thing, plain = Thing(), object
        NAMES = frozenset({"a", "b", "c", "d", Kind.A, Kind.B, ("e", "f")})
        BY_NAME = {"n": NAMES, "k": {Kind.B: {"q", "r", "s"}}}
        LOOP = [NAMES]
        LOOP.append(LOOP)
        def helper(x): return step(x) if x else thing.all()
        def step(x): return helper(x), NAMES, BY_NAME, LOOP, (lambda y: y)(x), {"i", "j"}
    """
    (tmp_path / "steps.py").write_text(textwrap.dedent(program))
    code = "import steps; from seamark.steps.definition.form import form_of; print(form_of(steps.step).text)"
    told = set()
    for seed in ("0", "1", "2"):
        path = os.pathsep.join([str(tmp_path), *sys.path])
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        command = [sys.executable, "-c", code]
        told.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(told) == 1
    assert "0x" not in told.pop()


def test_circles_of_every_kind_come_to_an_end(project: Any) -> None:
    program = """
        import functools, sys
        class Node:
            def __init__(self): self.next = self; self.all = [self]
            def go(self): return self.next.go(), Node, step
        node = Node()
        RING = {"ring": None}
        RING["ring"] = RING
        def one(x): return two(x)
        def two(x): return one(x), node.go(), RING, deep
        deep = functools.partial(one, two, step=lambda: step)
        def step(x): return one(x)
        step.__wrapped__ = step
    """
    form = form_of(project.step(program))
    assert "?" not in form.text
    assert form.unfollowed == {}


def test_what_is_nested_too_deeply_is_said(project: Any) -> None:
    program = "DEEP = []\nfor _ in range(100_000):\n    DEEP = [DEEP]\ndef step(x): return DEEP, x\n"
    assert form_of(project.step(program)).unfollowed == {"step": "what it uses is nested too deeply"}


def test_installed_packages_are_not_looked_into(project: Any) -> None:
    program = """
        import json, logging, math
        import pandas as pd
        from pyspark.sql import functions as F
        log = logging.getLogger("x")
        def step(x):
            log.info("%s", math.pi)
            return pd.concat([x]), json.dumps(x), F.col("a"), pd.NA, len(x)
    """
    form = form_of(project.step(program))
    assert form.unfollowed == {}
    assert " with " not in form.text


# --- what cannot be followed ------------------------------------------------------------------------------------------


def test_what_cannot_be_followed_is_said_once_with_its_name_and_version(project: Any, caplog: Any) -> None:
    program = """
        import collections, io
        import pandas as pd
        model = io.StringIO("weights")
        class Client:
            def __init__(self): self.session = iter([1])
            def get(self, x): return next(self.session)
        client = Client()
        NAMES = {"lookup": pd.DataFrame({"a": [1]})}
        made = {}
        exec("def helper(x): return x", made)
        helper = made["helper"]
        def step(x): return model.read(), client.get(x), NAMES["lookup"], helper(x), eval("x")
    """
    function = project.step(program)
    with caplog.at_level(logging.WARNING, "seamark"):
        digest_of(function)
        digest_of(function)
        source_and_digest("with a version", function, "1")
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("step 'step' uses what cannot be followed")
    for name in (".model (_io.StringIO)", ".client.session", "DataFrame", ".helper (a function:", "eval() in step"):
        assert name in said, name
    assert 'version="1"' in said


SCALE = "RATE = 1\ndef step(numbers): return numbers.selectExpr('id', f'n * {RATE} AS n')\n"


def scaling(ds: sm.DataStore, function: Any) -> tuple[sm.Table, sm.Table]:
    """A store in which `scaled` is made from `numbers` by a function."""
    numbers = ds.table("numbers", "id long, n long", key="id")
    scaled = ds.table("scaled", "id long, n long", key="id")
    ds.add(sm.BatchTransform(function, inputs=[numbers], outputs=[scaled], name="scale"))
    return numbers, scaled


def test_a_changed_constant_is_asked_about(open_store: Any, project: Any, rows: Any) -> None:
    numbers, scaled = scaling(before := open_store(), project.step(SCALE))
    numbers.upsert([{"id": 1, "n": 5}])
    before.run()
    _, scaled = scaling(after := open_store(), project.step(SCALE.replace("1", "2")))
    error = after.run().steps["scale"].error
    assert isinstance(error, sm.errors.DefinitionChanged)
    assert "a function, class or constant that it uses has changed" in error.message
    assert after.run(on_change="recompute").ok
    assert rows(scaled) == [(1, 10)]


def test_a_chain_of_an_earlier_version_is_taken_over_without_asking(
    open_store: Any, project: Any, monkeypatch: Any
) -> None:
    plain = Definition.set_transform

    def as_before(self: Definition, ids: Any) -> Any:
        event = plain(replace(self, digest=self.first_digest), ids)
        head, body = event.transform.queries
        facts = {name: fact for name, fact in json.loads(head.query).items() if name != "form"}
        queries = (replace(head, query=json.dumps(facts)), body)
        return replace(event, transform=replace(event.transform, queries=queries))

    with monkeypatch.context() as patched:
        patched.setattr(Definition, "set_transform", as_before)
        numbers, _ = scaling(store := open_store(), project.step(SCALE))
        numbers.upsert([{"id": 1, "n": 5}])
        store.run()

    numbers, _ = scaling(store := open_store(), project.step(SCALE))
    assert not store.run().did_something  # the same function, as far as the first form can tell
    assert store.verify(replay=True).not_replayable == 0
    numbers.upsert([{"id": 2, "n": 5}])
    assert store.run().ok
    scaling(store := open_store(), project.step(SCALE.replace("1", "2")))  # now what is finer counts
    assert isinstance(store.run().steps["scale"].error, sm.errors.DefinitionChanged)
