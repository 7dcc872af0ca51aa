"""Texts from outside are kept without secrets, without what cannot be stored, and not longer than anybody reads."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.errors import SeamarkError
from seamark.texts import MOST_LETTERS, record_of, storable, without_secrets, words_of


@pytest.mark.scenario("L70")
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("no route to postgresql://app:hunter2@db/prod", "no route to postgresql://app:***@db/prod"),
        ("jdbc:postgresql://app:h:u/n@ter2@db/prod, again", "jdbc:postgresql://app:***@db/prod, again"),
        ("redis://:hunter2@cache:6379/0", "redis://:***@cache:6379/0"),
        ("url='clickhouses://u:hunter2@h/db?x=1'", "url='clickhouses://u:***@h/db?x=1'"),
        ("host=h password=hunter2 dbname=d", "host=h password=*** dbname=d"),
        ("options=-cpassword%3Dhunter2", "options=-cpassword%3D***"),
        ('{"user": "me", "password": "hunter2 and more"}', '{"user": "me", "password": ***}'),
        ("PGPASSWORD: hunter2", "PGPASSWORD: ***"),
        ("401 for Authorization: Bearer hunter2hunter2==", "401 for Authorization: Bearer ***"),
        ("api_token='hunter2'", "api_token=***"),
        ("Unexpected token: '}' at http://host:8080/path", "Unexpected token: '}' at http://host:8080/path"),
        ("postgresql://app@db/prod is away", "postgresql://app@db/prod is away"),
    ],
)
def test_a_secret_in_a_text_is_masked(text, kept):
    assert without_secrets(text) == storable(text) == kept
    assert storable(kept) == kept


@pytest.mark.scenario("L70")
def test_a_password_that_is_cut_in_two_does_not_come_through():
    for length in range(63_900, 64_050):
        text = "x" * length + " postgresql://app:hunter2-and-so-on@db/prod " + "y" * 1000
        assert "hunter" not in storable(text, most=70_000)


FRAGMENTS = [
    "x" * 50,
    " password=hunter2secret",
    " pwd: 'hunter two'",
    " Bearer hunter2hunter2",
    " token=",
    "\x00",
    "é",
]
FRAGMENTS += [" postgresql://app:hunter2@db/prod", "***", "… (5,004 letters)", " ", "\n"]


@pytest.mark.scenario("L70")
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40), st.integers(30, 400))
def test_a_text_that_is_fit_stays_as_it_is_wherever_it_was_cut(pieces, most):
    kept = storable("".join(pieces), most)
    assert len(kept) <= most
    assert storable(kept, most) == kept


@pytest.mark.scenario("X99")
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("cannot open b\udcffname", "cannot open b\\udcffname"),
        ("a\x00b", "a\\x00b"),
        ("\x1b[31mred\x1b[0m\x9b", "\\x1b[31mred\\x1b[0m\\x9b"),
        ("two\r\nlines\tand a tab", "two\nlines\tand a tab"),
        ("gone\rover", "gone\\x0dover"),
        ("naïve 🙂 \u202f", "naïve 🙂 \u202f"),
    ],
)
def test_what_cannot_be_stored_is_written_out(text, kept):
    assert storable(text) == kept
    assert storable(kept) == kept


@pytest.mark.scenario("X99")
def test_a_text_is_cut_and_says_how_long_it_was():
    assert storable("x" * MOST_LETTERS) == "x" * MOST_LETTERS
    kept = storable("x" * (MOST_LETTERS + 1))
    assert MOST_LETTERS - 3 <= len(kept) <= MOST_LETTERS
    assert kept.endswith("xx… (2,001 letters)")


@pytest.mark.scenario("X99")
@pytest.mark.parametrize(
    "piece", ["x", "x.", "a://b:", "a://b:c@", "password", "password=", "bearer ", "'", "\udcff\x00"]
)
def test_five_megabytes_of_anything_are_no_work(piece):
    begun = time.process_time()
    assert len(storable(piece * (5_000_000 // len(piece)))) <= MOST_LETTERS
    assert time.process_time() - begun < 5


@pytest.mark.scenario("X99")
@given(st.text())
def test_a_kept_text_can_be_stored_everywhere_and_is_kept_as_it_is(text):
    kept = storable(text, most=50)
    assert "\x00" not in kept
    assert len(kept) <= 50
    assert json.loads(json.dumps(kept, ensure_ascii=False).encode()) == kept
    assert storable(kept, most=50) == kept


@pytest.mark.scenario("X99")
def test_an_error_that_cannot_say_what_it_is_is_named_by_its_class():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    assert words_of(Mute()) == "Mute: (its text cannot be made: RuntimeError)"
    assert words_of(ValueError()) == "ValueError"
    assert words_of(KeyError("a")) == "KeyError: 'a'"


@pytest.mark.scenario("X99")
def test_what_is_put_on_record_says_the_class_of_an_error_unless_it_is_one_of_ours():
    assert record_of(SeamarkError("no table.", hint="make one.")) == "no table. Hint: make one."
    assert record_of(KeyError("a")) == "KeyError: 'a'"
    assert record_of(AssertionError()) == "AssertionError"
