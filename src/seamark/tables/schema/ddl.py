"""Reading column definitions such as `post_id long, tags array<string> NOT NULL`, without a Spark session."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from seamark.errors import InvalidSchema

_TOKEN = re.compile(
    r"\s*(?:`((?:[^`]|``)+)`|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|([^\W\d]\w*)|(\d+)|([<>(),:]))", re.UNICODE
)

UTC_MICROS = pa.timestamp("us", tz="UTC")

_SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "varchar": pa.string(),
    "char": pa.string(),
    "character": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": UTC_MICROS,
    "timestamp_ltz": UTC_MICROS,
    "timestamp_ntz": pa.timestamp("us"),
}


class UnsupportedColumnType(Exception):
    """A type that Spark has and a table cannot hold; the text is the type as it was written."""


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """One column as it was declared. `type` is None for a type that a table cannot hold."""

    name: str
    type: pa.DataType | None
    nullable: bool
    written: str


def parse_columns(text: str) -> list[ColumnDefinition]:
    """The columns that a definition declares, in order."""
    reader = _Reader(text)
    columns = [reader.column()]
    while reader.take(","):
        columns.append(reader.column())
    reader.expect_end()
    return columns


def parse_type(text: str) -> pa.DataType | None:
    """The type that a text such as `array<decimal(10,2)>` names, or None if a table cannot hold it."""
    try:
        reader = _Reader(text)
        found = reader.type()
        reader.expect_end()
    except (UnsupportedColumnType, InvalidSchema):
        return None
    return found


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def column(self) -> ColumnDefinition:
        name = self._name("a column name")
        self.take(":")
        begin = self._place
        try:
            found: pa.DataType | None = self.type()
        except UnsupportedColumnType:
            found = None
            self._skip_type(begin)
        written = self._text[begin : self._place].strip()
        nullable = True
        if self._take_word("not"):
            if not self._take_word("null"):
                raise self._wrong("NULL after NOT")
            nullable = False
        if self._take_word("comment"):
            self._next()
        return ColumnDefinition(name, found, nullable, written)

    def type(self) -> pa.DataType:
        word = self._name("a type").lower()
        if word == "decimal" or word == "dec" or word == "numeric":
            return self._decimal()
        if word == "array":
            self._expect("<")
            item = self.type()
            self._expect(">")
            return pa.list_(item)
        if word == "struct":
            return self._struct()
        if word in ("varchar", "char", "character") and self.take("("):
            self._next()
            self._expect(")")
        if word == "timestamp" and (self._take_word("without") or self._take_word("with")):
            raise UnsupportedColumnType(word)
        if word == "string" and self._take_word("collate"):
            raise UnsupportedColumnType("string collate")
        if word not in _SIMPLE:
            raise UnsupportedColumnType(word)
        return _SIMPLE[word]

    def _decimal(self) -> pa.DataType:
        precision, scale = 10, 0
        if self.take("("):
            precision = int(self._next())
            if self.take(","):
                scale = int(self._next())
            self._expect(")")
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise InvalidSchema(
                f"decimal({precision},{scale}) in the column definition is not a decimal that Spark has.",
                hint="precision goes from 1 to 38, and scale from 0 to the precision.",
            )
        return pa.decimal128(precision, scale)

    def _struct(self) -> pa.DataType:
        self._expect("<")
        fields = []
        while True:
            name = self._name("a field name")
            self.take(":")
            found = self.type()
            nullable = not (self._take_word("not") and self._take_word("null"))
            fields.append(pa.field(name, found, nullable))
            if not self.take(","):
                break
        self._expect(">")
        return pa.struct(fields)

    def _skip_type(self, begin: int) -> None:
        """Continue behind a type that is not known: to the next comma or the end, over nested brackets."""
        self._place = begin
        depth = 0
        while (token := self._peek()) is not None:
            if depth == 0 and token in (",", ")", ">"):
                return
            if depth == 0 and token.lower() in ("not", "comment"):
                return
            depth += token in ("<", "(")
            depth -= token in (">", ")")
            self._next()

    def take(self, sign: str) -> bool:
        if self._peek() == sign:
            self._next()
            return True
        return False

    def expect_end(self) -> None:
        if self._text[self._place :].strip():
            raise self._wrong("a comma or the end")

    def _take_word(self, word: str) -> bool:
        token = self._peek()
        if token is not None and token.lower() == word:
            self._next()
            return True
        return False

    def _expect(self, sign: str) -> None:
        if not self.take(sign):
            raise self._wrong(f"'{sign}'")

    def _name(self, what: str) -> str:
        found = _TOKEN.match(self._text, self._place)
        if found is None or (found[1] is None and found[3] is None):
            raise self._wrong(what)
        self._place = found.end()
        return found[3] if found[1] is None else str(found[1]).replace("``", "`")

    def _peek(self) -> str | None:
        found = _TOKEN.match(self._text, self._place)
        return None if found is None else found[0].strip()

    def _next(self) -> str:
        found = _TOKEN.match(self._text, self._place)
        if found is None:
            raise self._wrong("more")
        self._place = found.end()
        return found[0].strip()

    def _wrong(self, expected: str) -> InvalidSchema:
        rest = self._text[self._place :].strip()
        return InvalidSchema(
            f"the column definition cannot be read: expected {expected} at {rest[:30]!r}. Nothing was declared.",
            hint="write columns like 'post_id long, content string NOT NULL'.",
        )
