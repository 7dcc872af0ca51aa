"""The connection drops during a commit: the writer finds out whether it stands, and it is there exactly once."""

from __future__ import annotations

import contextlib
import importlib
import socket
import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import make_url

from seamark import DataStore, faults
from seamark.control import Control
from seamark.errors import CommitConflict, ControlUnavailable

commit_module = importlib.import_module("seamark.control.commit")  # the package has a function of that name


class Line:
    """A line to PostgreSQL that can be cut at the next COMMIT. `cut` says how:

    "request": before the COMMIT reaches the server; "answer": after the server has answered, before we hear of it;
    "late": the COMMIT reaches the server only after our next try has begun; "for good": as "answer", and nobody can
    connect any more.
    """

    def __init__(self, url: str) -> None:
        server = make_url(url)
        self._server = (server.host, server.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = server.set(port=self._listener.getsockname()[1]).render_as_string(hide_password=False)
        self.cut: str | None = None
        self.cuts = 0
        self._held: tuple[socket.socket, bytes] | None = None
        self._sockets = [self._listener]
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._closed = True
        for each in self._sockets:
            hang_up(each)

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            self._sockets += [client, server]
            swallows = threading.Event()
            threading.Thread(target=self._to_server, args=(client, server, swallows), daemon=True).start()
            threading.Thread(target=self._to_client, args=(server, client, swallows), daemon=True).start()

    def _to_server(self, client: socket.socket, server: socket.socket, swallows: threading.Event) -> None:
        for data in received(client):
            how = self.cut if b"COMMIT" in data else None
            if how is not None:
                self.cut = None
                self.cuts += 1
            if how == "request":
                break
            if how == "late":
                self._held = (server, data)
                hang_up(client)
                return
            if how in ("answer", "for good"):
                swallows.set()
                if how == "for good":
                    hang_up(self._listener)
            sent(server, data)
            if self._held is not None and b"UPDATE table_head" in data:
                first, commit = self._held
                self._held = None
                sent(first, commit)
        hang_up(client)
        hang_up(server)

    def _to_client(self, server: socket.socket, client: socket.socket, swallows: threading.Event) -> None:
        for data in received(server):
            if swallows.is_set():
                break
            sent(client, data)
        if self._held is None or self._held[0] is not server:
            hang_up(client)
            hang_up(server)


def received(source: socket.socket) -> Iterator[bytes]:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            yield data


def sent(target: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        target.sendall(data)


def hang_up(line: socket.socket) -> None:
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
    line.close()


@pytest.fixture
def line(postgres_url) -> Iterator[Line]:
    opened = Line(postgres_url)
    yield opened
    opened.close()


@pytest.fixture
def directly(postgres_url) -> Iterator[Control]:
    """The same database, without the line."""
    opened = Control(postgres_url)
    yield opened
    opened.close()


CUTS = ["request", "answer", "late"]


@pytest.mark.scenario("T52")
@pytest.mark.parametrize("cut", CUTS)
def test_a_commit_whose_answer_is_lost_is_there_exactly_once(line, directly, commits, cut):
    control = Control(line.url)
    start = commits.append("posts")
    control.commit(commits.request(start))
    control.staging.register("run", ["posts/data/1"])
    change = commits.append("posts", after=start.new_head)

    line.cut = cut
    control.commit(commits.request(change, run_id="run", staged=("posts/data/1",)))

    assert line.cuts == 1
    assert directly.index.head("posts") == change.new_head
    assert [entry.sequence for entry in directly.index.blocks("posts")] == [1, 0]
    assert [run.run_id for run in directly.index.runs()].count("run") == 1
    control.close()


@pytest.mark.scenario("T52")
@pytest.mark.parametrize("cut", ["request", "answer"])
def test_the_first_commit_of_a_table_too(line, directly, commits, cut):
    control = Control(line.url)
    line.cut = cut
    control.commit(commits.request(commits.append("posts")))
    assert line.cuts == 1
    assert directly.index.head("posts") == commits.head("posts", 0)
    control.close()


@pytest.mark.scenario("T52")
def test_a_lease_that_is_lost_on_the_way_does_not_deny_a_commit_that_stands(line, directly, commits):
    control = Control(line.url)
    start = commits.append("posts")
    control.commit(commits.request(start))
    lease = control.leases.acquire("step:feed")
    change = commits.append("posts", after=start.new_head)
    seen = threading.Event()
    stands = commit_module._stands

    def looks(*args):
        answer = stands(*args)
        if not seen.is_set():  # the answer is: not yet. Then the first try gets through, and the lease goes
            seen.set()
            first, commit = line._held
            line._held = None
            sent(first, commit)
            directly.leases.release(lease)  # waits for the first try, which has locked the lease
        return answer

    line.cut = "late"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(commit_module, "_stands", looks)
        control.commit(commits.request(change, run_id="run", leases=(lease,)))

    assert directly.index.head("posts") == change.new_head
    assert [entry.sequence for entry in directly.index.blocks("posts")] == [1, 0]
    control.close()


@pytest.mark.scenario("T52")
def test_another_writer_who_was_faster_meanwhile_is_a_conflict(line, directly, commits, monkeypatch):
    control = Control(line.url)
    start = commits.append("posts")
    control.commit(commits.request(start))
    other = commits.append("posts", after=start.new_head, by="b")
    stands = commit_module._stands

    def looks(*args):
        answer = stands(*args)
        if directly.index.head("posts") == start.new_head:
            directly.commit(commits.request(other))
        return answer

    monkeypatch.setattr(commit_module, "_stands", looks)
    line.cut = "request"
    with pytest.raises(CommitConflict):
        control.commit(commits.request(commits.append("posts", after=start.new_head, by="a")))
    assert directly.index.head("posts") == other.new_head
    control.close()


@pytest.mark.scenario("T52")
def test_a_database_that_does_not_come_back_leaves_the_outcome_open_and_says_so(line, directly, commits, monkeypatch):
    monkeypatch.setattr(commit_module, "PAUSES_AFTER_A_LOST_ANSWER", (0.0,) * 3)
    control = Control(line.url)
    line.cut = "for good"
    with pytest.raises(ControlUnavailable, match="whether the commit was made is not known") as told:
        control.commit(commits.request(commits.append("posts")))
    assert "Nothing was changed" not in str(told.value)
    assert "seamark@" not in str(told.value)
    control.close()


@pytest.mark.scenario("T52")
@pytest.mark.parametrize("cut", CUTS)
def test_a_write_whose_answer_is_lost_is_there_exactly_once(line, directly, warehouse, clicks_of, monkeypatch, cut):
    store = DataStore(line.url, warehouse)
    clicks = store.table("clicks", "number long")
    clicks.append(clicks_of(1, 2))

    monkeypatch.setattr(
        faults, "reached", lambda point: setattr(line, "cut", cut) if point == "blocks-staged" else None
    )
    written = clicks.append(clicks_of(3, 4, 5))
    monkeypatch.undo()

    assert line.cuts == 1
    assert (written.first_offset, written.last_offset) == (2, 4)
    assert directly.index.head("clicks").last_offset == 4
    assert store.table("clicks").source.context.files("clicks").head() == directly.index.head("clicks").head_hash
    assert len(directly.index.runs()) == 2
    assert store.verify().ok
    store.close()
