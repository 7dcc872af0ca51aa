"""The program of the process that ClickHouse works in: it answers one request after another until there are no more.

Run as a file by `embedded`. It knows the engine and nothing of Seamark, so that it starts quickly.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from typing import Any

from chdb.session import Session


class Engine:
    """Sessions on a folder, by number."""

    def __init__(self) -> None:
        self._sessions: dict[int, Any] = {}

    def open(self, number: int, path: str) -> None:
        """Open a session under a number."""
        make: Any = Session  # the package has no types
        self._sessions[number] = make(path)

    def close(self, number: int) -> None:
        """End a session."""
        self._sessions.pop(number).close()

    def query(self, number: int, sql: str, form: str) -> bytes:
        """What a statement gives, in one of ClickHouse's formats."""
        return bytes(self._sessions[number].query(sql, form).bytes())

    def insert(self, number: int, statement: str, form: str, data: bytes) -> None:
        """Insert data as one block."""
        stream = self._sessions[number].send_insert(statement, form)
        step = 1 << 24
        for start in range(0, len(data), step):
            stream.append(data[start : start + step])
        stream.finish()


def main() -> None:
    """Answer requests from the standard input: True and what was asked for, or False and the engine's complaint."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever sent the request decides what is to be given up
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what the engine prints must not come between the answers
    engine = Engine()
    while True:
        try:
            verb, *given = pickle.load(sys.stdin.buffer)
        except EOFError:  # whoever asked is gone, or has no more questions
            return
        answer: tuple[bool, Any]
        try:
            answer = (True, getattr(engine, verb)(*given))
        except RuntimeError as error:  # the engine's own error is one
            answer = (False, str(error))
        pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
        answers.flush()


if __name__ == "__main__":
    main()
