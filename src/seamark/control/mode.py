"""The modes of runs and writes: the one list of texts that the record of runs and checkpoints have for them."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """How a run of a step finds its keys, or why it needs none; what a write does; or what a sink does."""

    SETTLED = "settled"
    REFUSED = "refused"
    PAUSED = "paused"
    CHANGES = "changes"
    ALL_KEYS = "all keys"
    RECOMPUTE = "recompute"
    RETRY = "retry"
    EXPIRE = "expire"
    DEFINITION = "definition"
    WATERMARK = "watermark"  # of a step or a write: only a watermark moves
    # What somebody asks for, or has chosen when the step was declared.
    V1 = "v1"
    LIMIT = "limit"
    FILTER = "filter"
    CHANGELIST = "changelist"
    KEYS = "keys"
    GIVE_UP = "give up"
    INITIALISE = "initialise"
    # What goes through a view page by page.
    SCAN = "scan"
    DICTIONARY = "dictionary"
    # What a report says of a run that has not committed anything.
    RUN = "run"
    FAILED = "failed"
    # What is written to a table by hand, and what sinks do.
    APPEND = "append"
    UPSERT = "upsert"
    REPLACE = "replace"
    DELETE = "delete"
    SCHEMA = "schema"
    FEED = "feed"
    SEND = "send"

    @property
    def is_idle(self) -> bool:
        """Whether a run does nothing: it has nothing to do, is to do nothing, or refuses."""
        return self in (Mode.SETTLED, Mode.REFUSED, Mode.PAUSED)

    @property
    def takes_no_keys(self) -> bool:
        """Whether no key is computed, though something may be committed."""
        return self.is_idle or self in (Mode.DEFINITION, Mode.WATERMARK)

    @property
    def takes_all_keys(self) -> bool:
        """Whether every key there is is computed."""
        return self in (Mode.ALL_KEYS, Mode.RECOMPUTE)

    @property
    def leaves_records(self) -> bool:
        """Whether a run takes some keys only, and may leave records behind that wait."""
        some = (Mode.CHANGELIST, Mode.KEYS, Mode.FILTER, Mode.LIMIT, Mode.RETRY, Mode.GIVE_UP)
        return self in (*some, Mode.SCAN, Mode.DICTIONARY)

    @property
    def runs_ahead(self) -> bool:
        """Whether a run computes keys ahead of the positions, and remembers which."""
        return self in (Mode.LIMIT, Mode.FILTER)
