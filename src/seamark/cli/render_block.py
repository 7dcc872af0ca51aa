"""One block as a document: YAML with the names of Open Data Fabric, as docs/ledger.md shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from seamark.cli.render import Parts
from seamark.facts.plain import plain

if TYPE_CHECKING:
    from seamark.facts.chains import BlockFacts

# What these are follows from the field that they are in; of all others the document says the kind.
_PLAIN_KINDS = {
    "Checkpoint",
    "DataSchema",
    "DataSlice",
    "ExecuteTransformInput",
    "OffsetInterval",
    "SourceState",
    "SqlQueryStep",
    "TransformInput",
}


def block(facts: BlockFacts) -> Parts:
    """`show --block`."""
    about = {
        "systemTime": plain(facts.system_time),
        "prevBlockHash": facts.prev_hash,
        "sequenceNumber": facts.sequence,
        "event": facts.event,
    }
    lines = [f"# {facts.table}, block {facts.hash}"]
    for name, item in about.items():
        lines += _field(name, item, facts.tables)
    return ["\n".join(lines)]


def _field(name: str, item: object, tables: Mapping[str, str], indent: str = "") -> Iterator[str]:
    """The lines of one field: on one line, or as a block below its name."""
    if isinstance(item, Mapping) and (kind := type_text(item)) is not None:
        yield f"{indent}{name}: {kind}"
    elif isinstance(item, Mapping) and item:
        yield f"{indent}{name}:"
        yield from _fields(item, tables, indent + "  ")
    elif isinstance(item, list) and item and all(_is_column(part) for part in item):
        yield f"{indent}{name}:"
        for column in item:
            yield f"{indent}  {column['name']}: {type_text(column['type'])}"
    elif isinstance(item, list) and item:
        yield f"{indent}{name}:"
        for part in item:
            yield from _item(part, tables, indent + "  ")
    elif isinstance(item, str) and "\n" in item:
        yield f"{indent}{name}: |"
        yield from (f"{indent}  {line}".rstrip() for line in item.splitlines())
    else:
        yield f"{indent}{name}: {_scalar(item)}{_remark(name, item, tables)}"


def _fields(item: Mapping[str, object], tables: Mapping[str, str], indent: str) -> Iterator[str]:
    """The lines of an object: its kind, where that is not plain, and its fields under the document's names."""
    kind = item.get("kind")
    if kind is None:  # an object with names of its own
        for name, part in item.items():
            yield from _field(str(name), part, tables, indent)
        return
    if kind not in _PLAIN_KINDS:
        yield f"{indent}kind: {kind}"
    for name, part in item.items():
        if name == "kind":
            continue
        lines = list(_field(_in_the_document(name), part, tables, indent))
        if name == "new_offset" and isinstance(part, int):
            lines[-1] += _records(item.get("prev_offset"), part)
        yield from lines


def _item(part: object, tables: Mapping[str, str], indent: str) -> Iterator[str]:
    """The lines of an item of a list: the first begins with a dash."""
    if not isinstance(part, Mapping):
        yield f"{indent}- {_scalar(part)}"
        return
    for number, line in enumerate(_fields(part, tables, indent + "  ")):
        yield line if number else f"{indent}- {line.lstrip()}"


def _in_the_document(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _remark(name: str, item: object, tables: Mapping[str, str]) -> str:
    return f"  # {tables[item]}" if name in ("datasetId", "datasetRef") and item in tables else ""  # type: ignore[index]


def _records(prev: object, new: int) -> str:
    """Both ends of a half-open interval in words: it is easily taken for a closed one."""
    first = 0 if prev is None else int(str(prev)) + 1
    return f"  # record {new}" if first == new else f"  # records {first} to {new}"


def _scalar(item: object) -> str:
    if item is None or item in ([], {}):
        return "null"
    return item if isinstance(item, str) and item else json.dumps(item, ensure_ascii=False)


def _is_column(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("kind") == "DataField" and not part.get("extra")


def type_text(item: Mapping[str, object]) -> str | None:
    """A column's type in one line, such as `List(Int64) or NULL`; None if the item is no type."""
    kind = str(item.get("kind", ""))
    if not kind.startswith("DataType"):
        return None
    parts = [part for key, part in item.items() if key != "kind" and part is not None]
    if kind == "DataTypeOption" and isinstance(item["inner"], Mapping):
        return f"{type_text(item['inner'])} or NULL"
    inner = ", ".join(_type_part(part) for part in parts)
    return kind.removeprefix("DataType") + (f"({inner})" if inner else "")


def _type_part(part: object) -> str:
    if isinstance(part, Mapping):
        return type_text(part) or f"{part.get('name')} {_type_part(part.get('type'))}"
    if isinstance(part, list):
        return ", ".join(_type_part(each) for each in part)
    return str(part)
