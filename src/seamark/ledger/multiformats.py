"""Hashes and dataset ids: self-describing bytes, and the text that they are written as.

A hash is a multihash (what function, how long, the digest) in multibase text; Open Data Fabric writes base16, so that
every hash of Seamark looks like `f1620` and 64 hex digits. Other bases and upper case are read and made into that.
"""

from __future__ import annotations

import base64
import binascii
import hashlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from seamark.errors import InvalidIdentifier

SHA3_256 = b"\x16\x20"
"""What comes before a sha3-256 digest: code 0x16, length 32."""

ARROW0_SHA3_256 = b"\x96\x80\xc0\x01\x20"
"""What comes before a logical hash: code 0x300016 as a varint, length 32."""

ED25519_PUBLIC_KEY = b"\xed\x01"
"""What comes before the public key that a dataset id is."""

_DID_ODF = "did:odf:"
_DID_KEY = "did:key:"
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BASE58_VALUE = {character: value for value, character in enumerate(_BASE58)}
_LONGEST = 512  # base58 takes quadratic time: text that cannot be an identifier is not worth reading


# --- multihash --------------------------------------------------------------------------------------------------------


def multihash(data: bytes | memoryview) -> str:
    """The sha3-256 multihash of these bytes, as text."""
    return "f1620" + hashlib.sha3_256(data).hexdigest()


def logical_multihash(digest: bytes) -> str:
    """A digest of rows, as the text of a logical hash."""
    return "f" + (ARROW0_SHA3_256 + digest).hex()


def hash_to_bytes(text: str) -> bytes:
    """The bytes of a hash, checked; `InvalidIdentifier` if it is not one."""
    return _checked_multihash(multibase_decode(text), text)


def hash_to_text(data: bytes) -> str:
    """The text of a hash's bytes, checked; `InvalidIdentifier` if they are not one."""
    return "f" + _checked_multihash(data, data.hex()).hex()


def normal_hash(text: str) -> str:
    """The same hash as Open Data Fabric writes it, whatever base or case it came in."""
    return hash_to_text(hash_to_bytes(text))


def short(text: str) -> str:
    """The last 8 digits of a hash, for people."""
    return text[-8:]


def _checked_multihash(data: bytes, shown: str) -> bytes:
    _, after_code = _read_varint(data, 0, shown)
    length, after_length = _read_varint(data, after_code, shown)
    if length == 0 or len(data) - after_length != length:
        raise InvalidIdentifier(f"'{shown}' is not a hash: it says {length} bytes, found {len(data) - after_length}.")
    return data


def _read_varint(data: bytes, start: int, shown: str) -> tuple[int, int]:
    value = 0
    for index in range(start, min(start + 9, len(data))):
        value |= (data[index] & 0x7F) << 7 * (index - start)
        if not data[index] & 0x80:
            return value, index + 1
    raise InvalidIdentifier(f"'{shown}' is not a hash: it ends within its prefix.")


# --- dataset ids ------------------------------------------------------------------------------------------------------


def new_dataset_id() -> str:
    """A dataset id nobody else has: a fresh public key. The private key is not kept, so nobody can sign for it."""
    public_key = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    return dataset_id_to_text(ED25519_PUBLIC_KEY + public_key)


def dataset_id_to_bytes(text: str) -> bytes:
    """The bytes of a dataset id, given as `did:odf:…` or `did:key:…`; `InvalidIdentifier` if it is not one."""
    for prefix in (_DID_ODF, _DID_KEY):
        if text.startswith(prefix):
            return _checked_key(multibase_decode(text[len(prefix) :]), text)
    raise InvalidIdentifier(f"'{text[:80]}' is not a dataset id.", hint=f"a dataset id begins with {_DID_ODF}")


def dataset_id_to_text(data: bytes) -> str:
    """The `did:odf:…` text of a dataset id's bytes; `InvalidIdentifier` if they are not one."""
    return _DID_ODF + "f" + _checked_key(data, data.hex()).hex()


def normal_dataset_id(text: str) -> str:
    """The same dataset id as Open Data Fabric writes it."""
    return dataset_id_to_text(dataset_id_to_bytes(text))


def did_key(dataset_id: str) -> str:
    """The same identity as a `did:key:…`, for software that does not know Open Data Fabric."""
    return _DID_KEY + multibase_encode(dataset_id_to_bytes(dataset_id), "z")


def is_dataset_id(text: str) -> bool:
    """Whether a reference is an id, rather than a name that still has to be looked up."""
    return text.startswith((_DID_ODF, _DID_KEY))


def _checked_key(data: bytes, shown: str) -> bytes:
    if not data.startswith(ED25519_PUBLIC_KEY) or len(data) != len(ED25519_PUBLIC_KEY) + 32:
        raise InvalidIdentifier(f"'{shown}' is not a dataset id: expected ed01 and a key of 32 bytes.")
    return data


# --- multibase --------------------------------------------------------------------------------------------------------


def multibase_encode(data: bytes, base: str = "f") -> str:
    """The bytes as text in base `f` (base16), `F` (upper case), `z` (base58btc) or `u` (base64url)."""
    match base:
        case "f":
            return "f" + data.hex()
        case "F":
            return "F" + data.hex().upper()
        case "z":
            return "z" + _base58_encode(data)
        case "u":
            return "u" + base64.urlsafe_b64encode(data).decode().rstrip("=")
    raise InvalidIdentifier(f"base '{base}' is not known.", hint="the bases are f, F, z and u.")


def multibase_decode(text: str) -> bytes:
    """The bytes of text in any of the bases that Open Data Fabric uses; `InvalidIdentifier` if it is not one."""
    if len(text) > _LONGEST:
        raise InvalidIdentifier(f"'{text[:80]}…' is not an identifier: it has {len(text)} characters.")
    try:
        match text[:1]:
            case "f" | "F":
                return binascii.unhexlify(text[1:])
            case "z":
                return _base58_decode(text[1:])
            case "u":
                padding = "=" * (-len(text[1:]) % 4)
                return base64.b64decode(text[1:] + padding, altchars=b"-_", validate=True)
    except ValueError as error:
        raise InvalidIdentifier(f"'{text}' cannot be read: {error}.") from error
    raise InvalidIdentifier(f"'{text}' does not begin with the letter of a base.", hint="the bases are f, F, z and u.")


def _base58_encode(data: bytes) -> str:
    number = int.from_bytes(data, "big")
    digits: list[str] = []
    while number:
        number, rest = divmod(number, 58)
        digits.append(_BASE58[rest])
    leading_zeros = len(data) - len(data.lstrip(b"\0"))
    return _BASE58[0] * leading_zeros + "".join(reversed(digits))


def _base58_decode(text: str) -> bytes:
    number = 0
    for character in text:
        if character not in _BASE58_VALUE:
            raise ValueError(f"'{character}' is not a base58 digit")
        number = number * 58 + _BASE58_VALUE[character]
    leading_zeros = len(text) - len(text.lstrip(_BASE58[0]))
    return b"\0" * leading_zeros + number.to_bytes((number.bit_length() + 7) // 8, "big")
