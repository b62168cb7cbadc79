import json
import os
import stat
import zlib

import pytest
from limits import no_more_descriptors

from xgb_fed.errors import ProtocolError
from xgb_fed.journal import MOST_JOURNALS, Journals, Terms
from xgb_fed.share import Share

TERMS = Terms("plain", 64, 8, "digest")
ONE, OTHER = b"1" * 16, b"2" * 16


def share():
    return Share(["a", "b"], [1], [0.5], [True])


@pytest.fixture
def journals(tmp_path):
    return Journals(tmp_path / "models")


def file_of(tmp_path, model):
    return tmp_path / "models" / f"{model.hex()}.journal"


@pytest.mark.parametrize("on_disk", [True, False])
def test_what_was_kept_comes_back(journals, on_disk):
    journals = journals if on_disk else Journals()
    journal = journals.start(ONE, TERMS, share())
    journal.share.add(0, 1.5, False)
    journal.keep()
    assert journals.find(ONE) == (TERMS, Share(["a", "b"], [1, 0], [0.5, 1.5], [True, False]))
    assert journals.find(OTHER) is None
    journals.end(ONE)
    assert journals.find(ONE) is None


def test_a_journal_is_one_models(journals, tmp_path):
    journals.start(ONE, TERMS, share())
    file_of(tmp_path, ONE).rename(file_of(tmp_path, OTHER))
    with pytest.raises(ProtocolError, match="damaged"):
        journals.find(OTHER)


def line(content):
    text = json.dumps(content)
    return f"{zlib.crc32(text.encode()):08x} {text}\n"


@pytest.mark.parametrize(
    "split", [[2, 0.5, True], [-1, 0.5, True], [True, 0.5, True], [0, "0.5", True], [0, 0.5, 1], [0, 0.5], 3]
)
def test_splits_are_checked_when_read(journals, tmp_path, split):
    journals.start(ONE, TERMS, share())
    with open(file_of(tmp_path, ONE), "a") as file:
        file.write(line([[1, 0.5, False]]))
    assert len(journals.find(ONE)[1]) == 2
    with open(file_of(tmp_path, ONE), "a") as file:
        file.write(line([split]))
    with pytest.raises(ProtocolError, match="damaged"):
        journals.find(ONE)


@pytest.mark.parametrize("on_disk", [True, False])
def test_the_oldest_of_too_many_go(journals, tmp_path, on_disk):
    journals = journals if on_disk else Journals()
    models = [bytes([k]) * 16 for k in range(MOST_JOURNALS + 3)]
    for age, model in enumerate(models):
        journals.start(model, TERMS, share())
        if on_disk:
            # Times of files are coarse.
            os.utime(file_of(tmp_path, model), (age, age))
    assert [journals.find(model) is None for model in models] == [True] * 3 + [False] * MOST_JOURNALS


def test_a_training_under_way_needs_no_further_descriptor(journals):
    journal = journals.start(ONE, TERMS, share())
    with no_more_descriptors():
        journal.share.add(0, 1.5, False)
        journal.keep()
    assert len(journals.find(ONE)[1]) == 2


def test_a_journal_that_is_gone_closes_its_file(journals):
    journal = journals.start(ONE, TERMS, share())
    descriptor = journal._descriptor
    os.fstat(descriptor)
    del journal
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_journals_are_their_owners_only(journals, tmp_path):
    before = os.umask(0o022)
    try:
        journals.start(ONE, TERMS, share())
    finally:
        os.umask(before)
    assert stat.S_IMODE(file_of(tmp_path, ONE).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "models").stat().st_mode) == 0o700
