"""Positions and keys that a step takes over from the outputs that it had before."""

import threading

import pytest
from sqlalchemy import insert, select
from sqlalchemy.exc import DBAPIError

from seamark.control import UNKNOWN_OUTPUTS, Adoption, Control, FailedKey, Position
from seamark.control.commit import position_row, save_failed_key
from seamark.control.schema import transform_input_offset, transform_meta

pytestmark = pytest.mark.scenario("X90")


def failed(key: int, outputs: str, at: float) -> FailedKey:
    return FailedKey("mk", f'{{"id":{key}}}', at, f"failed at {at}", 1, outputs=outputs)


def write(control: Control, keys: list[FailedKey], outputs: str, generation: int = 0) -> None:
    """Failed keys, and a position of the outputs."""
    position = Position("mk", "posts", 1.0, 5, 3, "posts-3", generation, outputs)
    with control.database.write() as connection:
        connection.execute(insert(transform_input_offset).values(**position_row(position)))
        for key in keys:
            save_failed_key(control.database, connection, key)


def keys_under(control: Control, outputs: str) -> list[tuple[str, float]]:
    with control.database.read() as connection:
        rows = connection.execute(select(transform_meta).where(transform_meta.c.outputs == outputs))
        return sorted((row.key, row.process_ts) for row in rows)


@pytest.mark.parametrize("adopted", ["a,b", UNKNOWN_OUTPUTS], ids=["of more outputs", "of outputs that are not known"])
def test_keys_of_a_first_pass_that_was_cut_off_give_way_to_newer_ones(control, adopted):
    """It had no position yet. Since then key 1 has failed again, key 2 was computed, and key 3 has failed as well."""
    write(
        control, [failed(1, "a", 1.0), failed(2, "a", 1.0), failed(1, adopted, 2.0), failed(3, adopted, 2.0)], adopted
    )

    control.offsets.adopt(Adoption("mk", adopted, "a"))

    assert keys_under(control, "a") == [('{"id":1}', 2.0), ('{"id":3}', 2.0)]
    assert len(keys_under(control, adopted)) == (0 if adopted == UNKNOWN_OUTPUTS else 2)
    assert {row.outputs: row.record_offset for row in control.index.positions("mk")}["a"] == 5


def test_rows_with_a_position_of_their_own_are_left_as_they_are(control):
    write(control, [failed(1, "a,b", 2.0)], "a,b")
    write(control, [failed(2, "a", 1.0)], "a", generation=4)

    control.offsets.adopt(Adoption("mk", "a,b", "a"))

    assert keys_under(control, "a") == [('{"id":2}', 1.0)]
    assert {row.outputs: row.generation for row in control.index.positions("mk")} == {"a": 4, "a,b": 0}


@pytest.mark.parametrize("adopted", ["a,b", UNKNOWN_OUTPUTS], ids=["of more outputs", "of outputs that are not known"])
def test_many_can_take_over_at_once(control_url, control, adopted):
    write(control, [failed(1, adopted, 2.0)], adopted)
    together, refused = threading.Barrier(6), []

    def adopt() -> None:
        mine = Control(control_url)
        mine.leases.live()
        together.wait()
        try:
            mine.offsets.adopt(Adoption("mk", adopted, "a"))
        except DBAPIError as error:
            refused.append(error)
        mine.close()

    threads = [threading.Thread(target=adopt) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert refused == []
    assert keys_under(control, "a") == [('{"id":1}', 2.0)]
