"""What tests share: programs that they start, oracles, and stores as tests need them. No test is in here."""

from pathlib import Path

SUPPORT = Path(__file__).parent
