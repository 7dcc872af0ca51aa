"""The command `seamark`: `main` is its entry point, `run` the same for a program that wants the exit code."""

from __future__ import annotations

from seamark.cli.app import main, run

__all__ = ["main", "run"]
