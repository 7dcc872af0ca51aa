"""What docs/json.md shows of each verb's JSON, and whether a document has that shape."""

import json
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "json.md"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,6}Z")


def shapes():
    """The example, the fields that may be null and the objects with keys of their own, by section."""
    found = {}
    for title, text in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        example = json.loads(re.search(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[1])
        found[title] = example, names_after("May be null:", text), names_after("Own keys:", text)
    return found


def names_after(words, text):
    line = re.search(words + r"(.*?)\.\n", text, re.DOTALL)
    return set(re.findall(r"`([^`]+)`", line[1])) if line else set()


def assert_same_shape(title, document):
    example, nullable, own_keys = shapes()[title]
    compare(example, document, title, nullable, own_keys)


def compare(example, actual, path, nullable, own_keys):
    name = path.rpartition(".")[2].rstrip("[]")
    if actual is None:
        assert name in nullable, f"{path} is null"
    elif isinstance(example, dict):
        assert isinstance(actual, dict), path
        if name in own_keys:
            return
        assert list(actual) == list(example), path
        for key, value in example.items():
            compare(value, actual[key], f"{path}.{key}", nullable, own_keys)
    elif isinstance(example, list):
        assert isinstance(actual, list), path
        for item in actual if example else []:
            compare(example[0], item, path + "[]", nullable, own_keys)
    else:
        is_number = isinstance(example, int | float) and not isinstance(example, bool)
        kinds = (int, float) if is_number else type(example)
        assert isinstance(actual, kinds), path
        assert isinstance(actual, bool) == isinstance(example, bool), path
        if isinstance(example, str) and TIME.fullmatch(example):
            assert TIME.fullmatch(actual), path
