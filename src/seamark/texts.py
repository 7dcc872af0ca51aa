"""Texts that come from outside, made fit to be kept and shown: without secrets, storable anywhere, and not endless."""

from __future__ import annotations

import re

from seamark.errors import SeamarkError

MOST_LETTERS = 2000
MOST_LOGGED = 4000  # letters of what stopped a run, in its row and in the log
# Masking looks at no more than this of a text: who throws a document of megabytes does not make everybody wait.
_LOOKED_AT = 64_000

# Every repetition is bounded, so that the time grows with the text and not with its square.
_CREDENTIALS = re.compile(r"((?<![\w+.-])[A-Za-z][\w+.-]{0,40}://[^\s/:@'\"]{0,256}):[^\s'\"]{0,1024}@")
_CUT_CREDENTIALS = re.compile(r"((?<![\w+.-])[A-Za-z][\w+.-]{0,40}://[^\s/:@'\"]{0,256}):[^\s'\"]{0,1024}\Z")
_CUT_OFF = r"… \([\d,]+ letters\)"
_VALUE = rf"(?!\*\*\*|{_CUT_OFF}\Z)('[^']*'|\"[^\"]*\"|[^\s&;,'\")]+)"
_NAMED = re.compile(rf"(?i)((?:password|passwd|pwd|token|secret)\s*(?:=|%3D)\s*){_VALUE}")
_DECLARED = re.compile(rf"(?i)((?:password|passwd|pwd|secret)[\"']?\s*:\s*){_VALUE}")
_BEARER = re.compile(r"(?i)(\bbearer\s+)[\w.~+/-]{8,}=*")

# NUL cannot be stored by PostgreSQL, and control codes must not reach a terminal. Line breaks and tabs may stay.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def without_secrets(text: str) -> str:
    """The text with `***` in place of passwords in URLs and of values that are named as secrets.

    Our own errors hold none; errors and stack traces of other people's programs may.
    """
    text = _CREDENTIALS.sub(r"\1:***@", text)
    for pattern in (_NAMED, _DECLARED, _BEARER):
        text = pattern.sub(r"\1***", text)
    return text


def storable(text: str, most: int = MOST_LETTERS) -> str:
    """The text as a database, a checkpoint or a log can hold it: without secrets, printable, and cut to a length.

    What UTF-8 cannot hold and control codes are written out (`\\udcff`, `\\x00`). A text that is fit already stays as
    it is.
    """
    shown = text[: max(_LOOKED_AT, most)]
    if len(shown) < len(text):  # a password that was cut off is not followed by its @
        shown = _CUT_CREDENTIALS.sub(r"\1:***", shown)
    shown = without_secrets(shown).encode("utf-8", "backslashreplace").decode()
    shown = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", shown.replace("\r\n", "\n"))
    if len(shown) <= most and len(text) <= max(_LOOKED_AT, most):
        return shown
    tail = f"… ({len(text):,} letters)"
    # The cut may go through a mask: it is made whole, so that the text stays as it is if it is made storable again.
    return without_secrets(shown[: most - len(tail) - len("***")]) + tail


def text_of(error: BaseException) -> str:
    """An error's own text, also of one that fails at saying it."""
    try:
        return str(error).strip()
    except Exception as trouble:
        return f"(its text cannot be made: {type(trouble).__name__})"


def record_of(error: BaseException) -> str:
    """An error as runs and logs keep it: one of ours by its text, which says it all, any other by its class as well."""
    text = text_of(error)
    return text if text and isinstance(error, SeamarkError) else _with_class(error, text)


def words_of(error: BaseException) -> str:
    """What an error says of itself, storable: its class and its text."""
    text = text_of(error)
    return storable(_with_class(error, text))


def _with_class(error: BaseException, text: str) -> str:
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
