"""A block that was put in an older one's place makes the chain lead back to itself."""

from datetime import UTC, datetime, timedelta

import pytest

from seamark.errors import ChainRuleBroken
from seamark.ledger import DatasetKind, Seed, SetInfo, new_dataset_id
from seamark.ledger.chain import ChainDraft, walk_back
from seamark.ledger.objects import ChainFiles
from seamark.ledger.verify import verify_chain


@pytest.fixture
def names(tmp_path):
    """Five blocks, the third of which was overwritten by the bytes of the last."""
    files = ChainFiles(tmp_path)
    draft = ChainDraft(None, datetime(2020, 1, 1, tzinfo=UTC))
    draft.add(Seed(new_dataset_id(), DatasetKind.ROOT))
    for number in range(4):
        draft.system_time += timedelta(seconds=1)
        draft.add(SetInfo(description=str(number)))
    for entry in draft.blocks:
        files.blocks.put(entry.data)
    found = [entry.hash for entry in draft.blocks]
    files.blocks.path(found[2]).write_bytes(draft.blocks[4].data)
    return found


@pytest.mark.scenario("L48")
@pytest.mark.timeout(10)
def test_verification_ends_and_names_the_break(names, tmp_path):
    report = verify_chain("posts", ChainFiles(tmp_path), names[-1])

    assert [(finding.block, finding.kind) for finding in report.findings] == [
        (names[2], "block hash"),
        (names[3], "sequenceNumber"),
    ]


@pytest.mark.timeout(10)
def test_walking_back_ends_too(names, tmp_path):
    with pytest.raises(ChainRuleBroken, match="sequenceNumber: expected 2, found 4"):
        list(walk_back(ChainFiles(tmp_path), names[-1]))
