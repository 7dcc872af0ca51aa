"""Verification: a chain read again from end to end and compared with itself. Pure Python and Arrow, no Spark."""

from __future__ import annotations

from seamark.ledger.verify.chain import StoredBlock, StoredChain, read_chain, verify_chain, verify_stored
from seamark.ledger.verify.report import Finding, NotReplayable, OnBlock, VerifyReport

__all__ = [
    "Finding",
    "NotReplayable",
    "OnBlock",
    "StoredBlock",
    "StoredChain",
    "VerifyReport",
    "read_chain",
    "verify_chain",
    "verify_stored",
]
