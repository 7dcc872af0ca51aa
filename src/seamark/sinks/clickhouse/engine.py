"""ClickHouse in a process of its own, which belongs to this one and ends with it.

Every session leaves threads behind in the process that it is opened in, with three open files each: after a few dozen
runs those of a long-lived program would be used up. So the engine gets a process, and after some sessions a new one.
"""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Protocol

_PROGRAM = Path(__file__).with_name("engine_process.py")
_SESSIONS = 40  # in one process: each leaves some five threads behind
_numbers = itertools.count(1)


class EngineEnded(Exception):
    """The engine's process has ended before it answered."""


class Session(Protocol):
    """An open session of the engine. Each of these raises RuntimeError where the engine complains."""

    def query(self, sql: str, form: str) -> bytes:
        """What a statement gives, in one of ClickHouse's formats."""

    def insert(self, statement: str, form: str, data: bytes) -> None:
        """Insert data in one of ClickHouse's formats, as one block."""

    def close(self) -> None:
        """Give the folder back, if no other session has it."""


class Engine:
    """The process that the engine works in, started when it is needed. Its callers take turns."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._open: set[int] = set()
        self._left = 0
        self._turn = threading.Lock()

    def session(self, path: Path) -> Session:
        """A session on a folder; one at a time may be open, apart from others on the same folder."""
        self._renew()
        session = _ProcessSession(self, next(_numbers))
        self._open.add(session.number)
        self._left -= 1
        try:
            self.ask("open", session.number, str(path.absolute()))
        except BaseException:
            self._open.discard(session.number)
            raise
        return session

    def ask(self, verb: str, number: int, *given: Any) -> Any:
        """The answer to a request about a session."""
        request = (verb, number, *given)
        with self._turn:
            process = self._process
            if process is None or number not in self._open or self._owner != os.getpid():
                raise EngineEnded("the process that ClickHouse worked in has ended")
            assert process.stdin is not None, "a pipe"
            assert process.stdout is not None, "a pipe"
            try:
                pickle.dump(request, process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
                process.stdin.flush()
                is_answer, answer = pickle.load(process.stdout)
            except (EOFError, OSError, pickle.UnpicklingError):
                code = self._end()
                raise EngineEnded(f"the process that ClickHouse works in has ended with {code}") from None
            except BaseException:  # nobody waits for the answer any more: the next one would get it
                self._end()
                raise
        if not is_answer:
            raise RuntimeError(answer)
        return answer

    def close(self, number: int) -> None:
        """End a session; one whose process has ended is over."""
        try:
            self.ask("close", number)
        except EngineEnded:
            return
        finally:
            self._open.discard(number)

    def _renew(self) -> None:
        """Have a process that may open sessions; a fork has the pipes of its parent's, which it leaves alone."""
        with self._turn:
            if self._owner != os.getpid():
                self._process = None
            elif self._process is not None and not self._open and self._left <= 0:
                self._end()
            if self._process is None or self._process.poll() is not None:
                self._process = self._start()
                self._owner, self._left = os.getpid(), _SESSIONS
                self._open.clear()

    @staticmethod
    def _start() -> subprocess.Popen[bytes]:
        # -P: beside the program are modules with names that Python's own have.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        return subprocess.Popen(
            [sys.executable, "-P", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )

    def _end(self) -> int | None:
        """End the process, whatever it does; how it ended."""
        process, self._process = self._process, None
        self._open.clear()
        if process is None:
            return None
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                _close_quietly(pipe)
        return process.wait()


def _close_quietly(pipe: Any) -> None:
    try:
        pipe.close()
    except BrokenPipeError:  # part of a request was still to be sent; nobody reads it
        return


class _ProcessSession:
    def __init__(self, engine: Engine, number: int) -> None:
        self._engine = engine
        self.number = number

    def query(self, sql: str, form: str) -> bytes:
        return self._engine.ask("query", self.number, sql, form)

    def insert(self, statement: str, form: str, data: bytes) -> None:
        self._engine.ask("insert", self.number, statement, form, data)

    def close(self) -> None:
        self._engine.close(self.number)
