"""Named points of the commit, at which a test may end the process the hard way."""

from __future__ import annotations

import os
import signal

_KILL_AT = "SEAMARK_KILL_AT"


def reached(point: str) -> None:
    """Nothing, unless the environment asks for this process to be killed at this point."""
    wanted = os.environ.get(_KILL_AT)
    if wanted == point:
        os.kill(os.getpid(), signal.SIGKILL)
