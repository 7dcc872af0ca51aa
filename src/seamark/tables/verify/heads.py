"""Heads that were written down elsewhere: the chains of a store must still hold these blocks."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping

from seamark.errors import InvalidIdentifier, UsedWrongly
from seamark.ledger.multiformats import normal_hash
from seamark.ledger.verify import Finding
from seamark.tables.table import Head

_HINT = "write them down with `seamark heads > heads.txt`: a table and the hash of its head on each line."


def read_heads(text: str) -> dict[str, str]:
    """The heads in a text as `seamark heads` prints it, with or without --json; `UsedWrongly` if it is another."""
    heads = dict(_from_json(text) if text.lstrip().startswith("{") else _from_lines(text))
    if not heads:
        raise UsedWrongly("there are no expected heads.", hint=_HINT)
    return normal_heads(heads)


def normal_heads(heads: Mapping[str, str | Head]) -> dict[str, str]:
    """The same heads, each as the hash that chains write; `UsedWrongly` if one is not a hash."""
    normal = {}
    for table, head in heads.items():
        text = head.block_hash if isinstance(head, Head) else head
        if text is None:
            continue
        try:
            normal[table] = normal_hash(text)
        except InvalidIdentifier as error:
            message = f"the expected head of table '{table}' is not a hash: {error.message}"
            raise UsedWrongly(message, hint=_HINT) from None
    return normal


def _from_lines(text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2:
            raise UsedWrongly(f"line {number} of the expected heads is not a table and a hash: {line!r}.", hint=_HINT)
        yield words[0], words[1]


def _from_json(text: str) -> Iterator[tuple[str, str]]:
    try:
        for entry in json.loads(text)["heads"]:
            if entry["head"] is not None:
                yield str(entry["table"]), str(entry["head"])
    except (ValueError, KeyError, TypeError):
        raise UsedWrongly("the expected heads are JSON, and not what `seamark heads` prints.", hint=_HINT) from None


def check_expected(
    expected: Mapping[str, str], chains: Mapping[str, Container[str]], tables: Container[str]
) -> Iterator[Finding]:
    """The expected heads that the chains, by table, do not hold. A chain that has grown since then still holds its own.

    Only `tables` are looked at.
    """
    for table, head in sorted(expected.items()):
        if table not in tables:
            continue
        blocks = chains.get(table)
        if blocks is None:
            yield _finding(table, head, "no such table", "it is not in this store")
        elif head not in blocks:
            yield _finding(table, head, "a chain without it", "its chain is another one, or was cut")


def _finding(table: str, head: str, found: str, what: str) -> Finding:
    text = f"table '{table}': its chain does not hold the expected block {head}: {what}."
    return Finding(table, head, "expected head", head, found, text)
