"""ClickHouse's HTTP interface in small, with the real engine behind it: `http_clickhouse.py FOLDER USER PASSWORD`.

No server binary is to be had where the tests run, so a client of a server is tried against this. It takes a query from
the address or the body, settings and database from the address, rows of an INSERT from the body; it checks the password
and answers errors as a server does. The user `USER-humble`, with the same password, may not ALTER anything. It prints
its port when it is ready, and ends when its stdin is closed.
"""

import base64
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from chdb.session import Session

_ROWS_FOLLOW = re.compile(r"\s+FORMAT\s+(\w+)\s*$", re.IGNORECASE)
_NO_SETTINGS = {"query", "database", "default_format", "session_id", "query_id", "compress", "wait_end_of_query"}
_one_at_a_time = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    session: Session
    user: str
    password: str

    def do_GET(self) -> None:
        self._answer(200, b"Ok.\n")

    def do_POST(self) -> None:
        body = self._body()
        user, password = self._credentials()
        if user not in (self.user, f"{self.user}-humble") or password != self.password:
            told = f"Code: 516. DB::Exception: {self.user}: Authentication failed: password is incorrect"
            self._answer(403, f"{told}. (AUTHENTICATION_FAILED)".encode(), code="516")
            return
        options = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        try:
            with _one_at_a_time:
                self._answer(200, self._run(options, body))
        except RuntimeError as error:
            code = re.search(r"Code: (\d+)", str(error))
            self._answer(404 if "UNKNOWN" in str(error) else 500, str(error).encode(), code=code[1] if code else "0")

    def _run(self, options: dict[str, str], body: bytes) -> bytes:
        self.session.query(f"USE `{options.get('database', 'default')}`")
        for name, value in options.items():
            if name not in _NO_SETTINGS:
                self.session.query(f"SET {name} = '{value}'")
        query = options.get("query", "")
        if self._credentials()[0] != self.user and (query + body.decode(errors="replace")).startswith("ALTER"):
            raise RuntimeError("Code: 497. DB::Exception: humble: Not enough privileges. (ACCESS_DENIED)")
        rows = _ROWS_FOLLOW.search(query)
        if query.lstrip().upper().startswith("INSERT") and rows and body:
            stream = self.session.send_insert(query[: rows.start()], rows[1])
            stream.append(body)
            stream.finish()
            return b""
        return bytes(self.session.query(query + body.decode(), "TabSeparated").bytes())

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _credentials(self) -> tuple[str, str]:
        given = self.headers.get("Authorization", "").removeprefix("Basic ")
        user, _, password = base64.b64decode(given).decode().partition(":")
        return user, password

    def _answer(self, status: int, data: bytes, code: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        if code is not None:
            self.send_header("X-ClickHouse-Exception-Code", code)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def main(folder: str, user: str, password: str) -> None:
    Handler.session, Handler.user, Handler.password = Session(folder), user, password
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()
    server.shutdown()
    Handler.session.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
