from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark import ledger
from seamark.errors import InvalidIdentifier
from seamark.ledger.multiformats import logical_multihash


@pytest.mark.scenario("L2")
def test_known_multihashes_come_out_as_written(vectors):
    for known in vectors["multihash"]:
        assert ledger.multihash(known["of"].encode()) == known["base16"]
        assert ledger.multibase_encode(ledger.hash_to_bytes(known["base16"]), "z") == known["base58btc"]
        assert ledger.normal_hash(known["base58btc"]) == known["base16"]


@pytest.mark.scenario("L2")
def test_an_upper_case_hash_is_the_same_hash(vectors):
    text = vectors["multihash"][0]["base16"]
    assert ledger.normal_hash("F" + text[1:].upper()) == text
    assert ledger.hash_to_bytes("F" + text[1:].upper()) == ledger.hash_to_bytes(text)


@pytest.mark.scenario("L2")
def test_known_dataset_ids_come_out_as_written(vectors):
    for known in vectors["dataset_id"]:
        assert ledger.did_key(known["did_odf"]) == known["did_key"]
        assert ledger.normal_dataset_id(known["did_key"]) == known["did_odf"]
        assert ledger.dataset_id_to_text(ledger.dataset_id_to_bytes(known["did_odf"])) == known["did_odf"]


def test_new_dataset_ids_are_all_different_and_well_formed():
    ids = {ledger.new_dataset_id() for _ in range(20)}
    assert len(ids) == 20
    assert all(len(ledger.dataset_id_to_bytes(dataset_id)) == 34 for dataset_id in ids)


def test_a_hash_is_shown_by_its_last_eight_digits():
    assert ledger.short("f162008c3792b2a4deed1bd7ea2328fb5de5531eccf0fbfa04a7d800cdc267137c635") == "7137c635"


def test_a_logical_hash_has_its_own_prefix():
    assert logical_multihash(bytes(32)) == "f9680c00120" + "00" * 32


@given(st.binary(max_size=80), st.sampled_from("fFzu"))
def test_bytes_survive_every_base(data, base):
    assert ledger.multibase_decode(ledger.multibase_encode(data, base)) == data


@pytest.mark.parametrize(
    "text",
    [
        "",
        "f",
        "f16",
        "f1620",
        "f1620abcd",
        "f162g",
        "x1620",
        "z0OIl",
        "u**",
        "f" + "00" * 34,
        "f" + "ff" * 20,
        "z" * 9999,
    ],
)
def test_what_is_no_hash_is_refused(text):
    with pytest.raises(InvalidIdentifier):
        ledger.hash_to_bytes(text)


@pytest.mark.parametrize("text", ["posts", "did:odf:", "did:odf:fed01", "did:odf:f1620" + "00" * 32, "did:web:example"])
def test_what_is_no_dataset_id_is_refused(text):
    with pytest.raises(InvalidIdentifier):
        ledger.dataset_id_to_bytes(text)


@given(st.text(max_size=60))
def test_any_text_is_an_identifier_or_refused_as_one(text):
    for read in (ledger.hash_to_bytes, ledger.dataset_id_to_bytes, ledger.multibase_decode):
        with contextlib.suppress(InvalidIdentifier):
            read(text)
