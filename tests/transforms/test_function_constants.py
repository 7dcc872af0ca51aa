"""Constants that a function uses, wherever they hide: a change is seen, or it is said that it would not be."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from seamark.steps.definition.definition import source_and_digest
from seamark.steps.definition.form import form_of

pytestmark = pytest.mark.scenario("X94")

# Each is a program in which the last 1 is made a 2, which must be seen.
SEEN = {
    "a method that is named like one of sets": """
        class Words:
            def add(self, x): return x + 1
        WORDS = Words()
        def step(x): return WORDS.add(x)
    """,
    "a type of Spark": """
        from pyspark.sql.types import DecimalType
        KIND = DecimalType(10, 1)
        def step(x): return x.cast(KIND)
    """,
    "a namespace": "import types\nNS = types.SimpleNamespace(rate=1)\ndef step(x): return x * NS.rate\n",
    "a method of a dict": "GET = {'EUR': 1}.get\ndef step(x): return GET(x)\n",
    "a method of a text": "LINE = '{}: 1'.format\ndef step(x): return LINE(x)\n",
    "a method of a pattern": "import re\nSUB = re.compile('1').sub\ndef step(x): return SUB('', x)\n",
    "an operator of a number": "ADD = (1).__add__\ndef step(x): return ADD(x)\n",
    "a method of a dict in a cache": "import functools\nGET = functools.cache({'E': 1}.get)\ndef step(x): return GET\n",
    "a method of a dict in a vectorised function": """
        import numpy as np
        GET = np.vectorize({"EUR": 1}.get)
        def step(x): return GET(x)
    """,
    "a method of a dict in a partial in a cache": """
        import functools, operator
        BY = functools.cache(functools.partial(operator.mul, 1))
        def step(x): return BY(x)
    """,
    "a whole number of the project's": "class Limit(int): pass\nL = Limit(1)\ndef step(x): return x + L\n",
    "a text of the project's": "class Name(str): pass\nN = Name('a 1')\ndef step(x): return N\n",
    "a float of the project's": "class Rate(float): pass\nR = Rate(0.1)\ndef step(x): return x * R\n",
    "a number of the project's, by a method": "class L(int): pass\nl = L(1)\ndef step(x): return l.bit_length()\n",
    "an error of the project's": "class Bad(ValueError): pass\nBAD = Bad('a 1')\ndef step(x): raise BAD\n",
    "an array of the project's": """
        import numpy as np
        class Rates(np.ndarray): pass
        RATES = np.array([0, 1]).view(Rates)
        def step(x): return x * RATES
    """,
    "a day of the project's": """
        from datetime import date
        class Day(date): pass
        DAY = Day(2020, 1, 1)
        def step(x): return x > DAY
    """,
    "a method of a decimal of the project's": """
        from decimal import Decimal
        class Money(Decimal):
            def cents(self): return self * 1
        PRICE = Money("3.50")
        def step(x): return x, PRICE
    """,
    "a dict of the project's, by a method": """
        class Rates(dict): pass
        RATES = Rates(EUR=1)
        def step(x): return RATES.get(x)
    """,
    "a dict of the project's, by super": """
        class Rates(dict):
            def of(self, x): return super().get(x)
        RATES = Rates(EUR=1)
        def step(x): return RATES.of(x)
    """,
    "an object whose method is a package's": """
        import string
        class Line(string.Template): pass
        LINE = Line("$x 1")
        def step(x): return LINE.substitute(x=x)
    """,
    "a bound method that is a package's": """
        import string
        class Line(string.Template): pass
        fill = Line("$x 1").substitute
        def step(x): return fill(x=x)
    """,
    "a class whose method is a package's": """
        from datetime import date
        class Day(date):
            def __new__(cls, year, month, day): return date(year, month, 1)
        def step(x): return Day.fromisoformat(x)
    """,
    "a class with parameters": """
        from typing import Generic, TypeVar
        T = TypeVar("T")
        class Box(Generic[T]):
            def rate(self): return 1
        IntBox = Box[int]
        def step(x): return IntBox().rate()
    """,
    "what a dict makes of keys that it lacks": """
        from collections import defaultdict
        RATES = defaultdict(lambda: 1)
        def step(x): return RATES[x]
    """,
    "a time zone of the project's": """
        from datetime import timedelta, tzinfo
        class Fixed(tzinfo):
            def utcoffset(self, moment): return timedelta(hours=1)
        ZONE = Fixed()
        def step(x): return x.astimezone(ZONE)
    """,
    "a time zone of the project's in a moment": """
        from datetime import datetime, timedelta, tzinfo
        class Fixed(tzinfo):
            def utcoffset(self, moment): return timedelta(hours=1)
        START = datetime(2020, 1, 1, tzinfo=Fixed())
        def step(x): return x > START
    """,
    "an object in a slice": """
        class Place:
            def __index__(self): return 1
        PART = slice(0, Place())
        def step(x): return x[PART]
    """,
}


@pytest.mark.parametrize("program", SEEN.values(), ids=SEEN)
def test_a_changed_constant_is_seen(project: Any, program: str) -> None:
    once = form_of(project.step(program))
    before, after = program.rsplit("1", 1)
    assert form_of(project.step(f"# the same\n{textwrap.dedent(program)}")) == once
    assert form_of(project.step(f"{before}2{after}")).text != once.text
    assert once.unfollowed == {}
    assert " at 0x" not in once.text


@pytest.mark.parametrize("name", ["add", "update", "sort", "remove", "pop", "clear"])
def test_a_helper_that_is_named_like_a_method_of_containers_is_followed(project: Any, name: str) -> None:
    program = f"""
        from pk import prices
        def step(x): return prices.{name}(prices.half(x))
    """
    helpers = f"def {name}(x): return x * 1\ndef half(x): return x / 3\n"
    once = form_of(project.step(program, prices=helpers))
    assert once.unfollowed == {}
    for before, after in (("x * 1", "x * 2"), ("x / 3", "x / 2")):
        assert form_of(project.step(program, prices=helpers.replace(before, after))).text != once.text


def test_a_column_of_spark_is_no_type(project: Any, spark: Any) -> None:
    form = form_of(
        project.step("""
        from pyspark.sql import functions as F
        WANTED = F.col("n") > 1
        def step(x): return x.where(WANTED)
    """)
    )
    assert list(form.unfollowed) == ["steps.WANTED"]


# Each names a function or class of a package, and another one that it is changed to.
NAMED = {
    "a type in a dict": ("KINDS = {'id': int}\ndef step(x): return x.astype(KINDS)\n", "int", "float"),
    "a method in a list": ("CLEAN = [str.upper]\ndef step(x): return CLEAN[0](x)\n", "upper", "lower"),
    "a class method": ("import datetime as d\nf = [d.datetime.now]\ndef step(x): return f[0]()\n", "now", "today"),
    "a function of an array": ("import numpy as np\nF = {'a': np.add}\ndef step(x): return F\n", "add", "subtract"),
    "a function in a partial": (
        "import functools, math\nf = functools.partial(math.pow, 2)\ndef step(x): return f(x)\n",
        "pow",
        "fmod",
    ),
    "a function in a closure": (
        "import math\ndef make(f):\n    def inner(x): return f(x)\n    return inner\nstep = make(math.floor)\n",
        "floor",
        "ceil",
    ),
    "a default by another name": ("KIND = int\ndef step(x, kind=KIND): return kind(x)\n", "int", "float"),
    "a type in an object": (
        "class Cast:\n    def __init__(self, kind): self.to = kind\nC = Cast(int)\ndef step(x): return C.to(x)\n",
        "(int)",
        "(float)",
    ),
    "a type in a class": ("class Cast:\n    to = int\ndef step(x): return Cast.to(x)\n", "int", "float"),
    "a union of types": ("KINDS = int | str\ndef step(x): return isinstance(x, KINDS)\n", "str", "float"),
}


@pytest.mark.parametrize(("program", "name", "other"), NAMED.values(), ids=NAMED)
def test_another_function_or_class_of_a_package_is_seen(project: Any, program: str, name: str, other: str) -> None:
    once = form_of(project.step(program))
    assert form_of(project.step(program)) == once
    assert form_of(project.step(program.replace(name, other))).text != once.text
    assert once.unfollowed == {}


def test_names_of_packages_that_the_syntax_has_are_not_repeated(project: Any) -> None:
    program = """
        import json, random
        from hashlib import md5
        from math import floor
        from random import choice, random as chance
        import numpy as np
        class Reader:
            load = staticmethod(json.loads)
        def step(x, kind=int, *, key=len):
            return floor(x), md5(x), choice(x), np.mean(x), kind(x), key(x)
    """
    form = form_of(project.step(program))
    assert form.unfollowed == {}
    assert form.text.partition(" with ")[2] == "{defaults=tuple(); keywords=dict('key':)}"


# --- modules that are handed on whole ---------------------------------------------------------------------------------

HANDED_ON = "from pk import helpers\ndef step(x, which): return getattr(helpers, which)(x)\n"
IMPORTS = {
    "by its name": "from pk import core\n",
    "relatively": "from . import core\n",
    "something of it": "from .core import rate\n",
    "everything of it": "from pk.core import *\n",
    "under another name": "import pk.core as c\n",
    "by a function": "def lazily():\n    import pk.core\n    return pk.core\n",
    "by way of another": "from pk import between\n",
}


@pytest.mark.parametrize("imports", IMPORTS.values(), ids=IMPORTS)
def test_what_a_module_imports_that_is_handed_on_counts(project: Any, imports: str) -> None:
    files = {"helpers": imports, "between": "import pk.core, pk.helpers\n", "core": "def rate(x): return x * 1\n"}
    once = form_of(project.step(HANDED_ON, **files))
    assert form_of(project.step(HANDED_ON, **{**files, "core": "# the same\n" + files["core"]})) == once
    assert form_of(project.step(HANDED_ON, **{**files, "core": "def rate(x): return x * 2\n"})).text != once.text
    assert once.unfollowed == {}


def test_a_module_that_is_handed_on_counts_the_same_before_and_after_it_imports_another(project: Any) -> None:
    lazily = "def lazily(x):\n    import pk.core\n    return pk.core.rate(x)\n"
    step = project.step(HANDED_ON, helpers=lazily, core="def rate(x): return x * 1\n")
    before = form_of(step)
    assert "pk.core" not in sys.modules  # it was found without being run
    assert step(3, "lazily") == 3
    assert form_of(step) == before


# --- what cannot be followed ------------------------------------------------------------------------------------------

UNFOLLOWED = {
    "a method of a package's object": (
        "import string\nFILL = string.Template('$x').substitute\ndef step(x): return FILL(x=x)\n",
        {"steps.FILL": "string.Template"},
    ),
    "a function made by NumPy": (
        "import numpy as np\nF = np.frompyfunc(lambda x: x, 1, 1)\ndef step(x): return F(x)\n",
        {"steps.F": "numpy.ufunc"},
    ),
    "a random state": (
        "import random\nclass Dice(random.Random): pass\nDICE = Dice(1)\ndef step(x): return x, DICE\n",
        {"steps.DICE": "what it holds as _random.Random"},
    ),
    "a module that is imported by its name": (
        "import importlib\ndef step(x): return importlib.import_module(x)\n",
        {"importlib.import_module in step": "it may reach anything"},
    ),
    "the modules that are loaded": (
        "import sys\ndef step(x): return sys.modules[x]\n",
        {"sys.modules in step": "it may reach anything"},
    ),
    "a descriptor that fails": (
        """
        class Later:
            def __get__(self, owner, kind): raise RuntimeError("not yet")
        class Scale:
            rate = Later()
        scale = Scale()
        def step(x): return x * scale.rate
        """,
        {"scale.rate": "it cannot be looked at: RuntimeError: not yet"},
    ),
    "a container that fails": (
        """
        class Later(list):
            def __iter__(self): raise RuntimeError("not yet")
        LATER = Later([1])
        def step(x, y=LATER): return y
        """,
        {"step": "what it uses cannot be looked at: not yet"},
    ),
}


@pytest.mark.parametrize(("program", "said"), UNFOLLOWED.values(), ids=UNFOLLOWED)
def test_what_cannot_be_followed_is_named(project: Any, program: str, said: dict[str, str]) -> None:
    form = form_of(project.step(program))
    assert form.unfollowed == said
    assert " at 0x" not in form.text


FAILING = {
    "raise RuntimeError('needs a display')": "RuntimeError: needs a display",
    "raise SystemExit(3)": "SystemExit: 3",
    "import no_such_module": "No module named 'no_such_module'",
    "syntax error": "SyntaxError: invalid syntax (broken.py, line 2)",
}


@pytest.mark.parametrize("line", FAILING)
def test_a_module_that_cannot_be_imported_is_named_and_tried_once(project: Any, line: str, capsys: Any) -> None:
    program = "def step(x):\n    import pk.broken\n    from pk.broken import h\n    pk.broken.count = 1\n"
    program += "    return pk.broken.h(h(x))\n"
    step = project.step(program, broken=f"print('tried')\n{line}\n")
    said = f"it cannot be imported: {FAILING[line]}"
    assert form_of(step).unfollowed == {"pk.broken.h": said}
    assert capsys.readouterr().out.count("tried") <= 1
    assert source_and_digest("step", step, None) == source_and_digest("step", step, None)


# --- the same in every process, with every version, and after running -------------------------------------------------


def test_no_address_gets_into_a_form(tmp_path: Path) -> None:
    program = """
        import io, re, string, types, zoneinfo
        from datetime import datetime, time, timedelta, tzinfo
        from decimal import Decimal
        from pathlib import Path
        class Fixed(tzinfo):
            def utcoffset(self, moment): return timedelta(hours=1)
        class Thing: pass
        class Limit(int): __repr__ = object.__repr__
        class Name(str): __repr__ = object.__repr__
        class Money(Decimal): __repr__ = object.__repr__
        class Place(type(Path())): __repr__ = object.__repr__
        with open(zoneinfo.TZPATH[0] + "/UTC", "rb") if zoneinfo.TZPATH else io.BytesIO() as file:
            UNNAMED = zoneinfo.ZoneInfo.from_file(io.BytesIO(file.read()))
        ALL = []
        ALL += [
            Fixed(), UNNAMED, datetime(2020, 1, 1, tzinfo=Fixed()), time(1, tzinfo=Fixed()), time(1, tzinfo=UNNAMED),
            slice(Thing(), Thing()), Limit(5), Name("a"), Money("1"), Place("/x"), range(Limit(5)),
            re.compile(Name("a")), types.SimpleNamespace(a=Thing()), {Thing: Thing().__init__, "n": Name("a").upper},
            string.Template(Name("$x")).substitute, io.StringIO, object(), iter([]), Thing().__eq__, ValueError(ALL),
        ]
        def step(x, y=Thing(), *, z=Fixed()): return ALL, UNNAMED
    """
    (tmp_path / "steps.py").write_text(textwrap.dedent(program))
    code = "import steps; from seamark.steps.definition.form import form_of; print(form_of(steps.step).text)"
    told = set()
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
        command = [sys.executable, "-c", code]
        told.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert "0x" not in "".join(told)
    assert len(told) == 1


def test_what_bound_methods_write_to_is_no_constant(project: Any) -> None:
    program = """
        class Cache(dict): pass
        SEEN, CACHE = [], Cache()
        push, known = SEEN.append, CACHE.get
        def step(x):
            push(x)
            CACHE[x] = len(SEEN)
            return known(x)
    """
    step = project.step(program)
    before = form_of(step)
    assert [step("a"), step("b")] == [1, 2]
    assert form_of(step) == before


def test_a_form_is_the_one_that_earlier_versions_have_recorded(project: Any) -> None:
    """If this fails, standing steps will ask what to do with their rows: is that needed?"""
    program = """
        import functools, json, re
        from datetime import datetime, timezone
        from decimal import Decimal
        RATE, NAMES = Decimal("1.5"), {"a": [1, 2.5], "b": ("x", None, frozenset({3, 4}))}
        WORD, START = re.compile("[a-z]+", re.I), datetime(2020, 1, 1, tzinfo=timezone.utc)
        PART = slice(1, None)
        class Scale:
            unit = "m"
            def __init__(self, rate): self.rate, self.seen = rate, 0
            def by(self, x): self.seen += 1; return json.loads(x) * self.rate
        scale, cache = Scale(RATE), {}
        def plus(n):
            def deco(fn):
                @functools.wraps(fn)
                def w(x, *, kind=int): return kind(fn(x)) + n
                return w
            return deco
        half = functools.partial(scale.by, x=2)
        @plus(3)
        def step(x):
            from pk.deep.text import clean
            cache[x] = WORD.sub("", x), START, NAMES["a"][PART]
            return clean(half(x)), scale.by(x), [lambda y: y + RATE]
    """
    form = form_of(project.step(program, "def clean(x):\n    return x + 1\n"))
    assert form.unfollowed == {}
    recorded = "0df27b4512c3ffc0bb19670eaf20bc128cfabc46e1fbb7dfaeb8111a4f737c64"
    assert hashlib.sha256(form.text.encode()).hexdigest() == recorded


def test_functions_that_packages_have_made_with_cython_are_the_packages(project: Any) -> None:
    program = """
        import pyarrow as pa
        from numpy.random import normal
        from pyarrow import table
        def step(x): return pa.array(x), table(x), normal(x)
    """
    form = form_of(project.step(program))
    assert form.unfollowed == {}
    assert " with " not in form.text
