"""A control database as an older version left it, and as others see it without Seamark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, make_url, text

VERSIONS = {number: (Path(__file__).parent / f"version_{number}.sql").read_text() for number in (1, 2)}
LONG_KEY = '{"url":"' + "äx" * 300 + '"}'

_ROWS = (
    "INSERT INTO table_head VALUES ('posts', 'did:odf:posts', 'root', 'posts-0', 0, 0, 1704110400000, 'posts-0',"
    " NULL, NULL)",
)
_MORE_ROWS = (
    "INSERT INTO block VALUES ('posts', 0, 'posts-0', 'AddData', 0, 0, 1704110400000, 'slice', 100, NULL)",
    "INSERT INTO base VALUES ('posts', 3, 0, 0, 1)",
    "INSERT INTO lease VALUES ('step:feed', 'me', 7, 9999999999.0)",
    "INSERT INTO run VALUES ('r-1', 'feed', 'changes', 1.0, 2.0, NULL, 5, 4, 'done', NULL, 'token')",
    "INSERT INTO run VALUES ('r-2', 'feed', 'changes', 3.0, 4.0, NULL, 1, 1, 'failed', 'no', NULL)",
    "INSERT INTO sink_position VALUES ('ch', 'posts', 0)",
    "INSERT INTO transform_input_offset VALUES ('feed', 'posts', 1.5, 0, 0, 'posts-0', 2)",
    "INSERT INTO transform_meta VALUES ('feed', '{\"id\":1}', 1.0, false, 'boom', 2, 9.0, '{}')",
    "INSERT INTO transform_meta VALUES ('feed', '{\"id\":2}', 1.0, true, NULL, 0, NULL, '{\"posts\":0}')",
    f"INSERT INTO transform_meta VALUES ('feed', '{LONG_KEY}', 1.0, false, 'boom', 1, NULL, NULL)",
)


def plain_engine(url: str) -> Engine:
    """Connections to a control database without Seamark."""
    parsed = make_url(url)
    return create_engine(
        parsed.set(drivername="postgresql+psycopg") if parsed.get_backend_name() == "postgresql" else parsed
    )


@contextmanager
def plainly(url: str) -> Iterator[Connection]:
    """A transaction without Seamark."""
    engine = plain_engine(url)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def make_version(number: int, url: str) -> str:
    """Make a database of an older version with a head in it."""
    with plainly(url) as connection:
        made = [statement for statement in VERSIONS[number].split(";") if statement.strip()]
        for statement in (*made, f"INSERT INTO seamark_schema VALUES ({number})", *_ROWS):
            connection.exec_driver_sql(statement)
    return url


def make_version_1(url: str, *, full: bool = False) -> str:
    """Make a database of version 1 with a head in it; `full`, with rows in every table."""
    make_version(1, url)
    with plainly(url) as connection:
        for statement in _MORE_ROWS if full else ():
            connection.exec_driver_sql(statement)
    return url


def version_on_disk(url: str) -> int:
    """The version that a database says it has."""
    with plainly(url) as connection:
        return int(connection.execute(text("SELECT version FROM seamark_schema")).scalar_one())


def reader_of(url: str) -> str:
    """The URL for a user of its own who may look at the tables that stand, and do nothing else."""
    parsed = make_url(url)
    name = f"reader_of_{parsed.database}"
    with plainly(url) as connection:
        connection.execute(text(f"REVOKE ALL ON DATABASE {parsed.database} FROM PUBLIC"))
        connection.execute(text(f"CREATE ROLE {name} LOGIN PASSWORD 'open-sesame'"))
        connection.execute(text(f"GRANT CONNECT ON DATABASE {parsed.database} TO {name}"))
        connection.execute(text(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}"))
    return parsed.set(username=name, password="open-sesame").render_as_string(hide_password=False)
