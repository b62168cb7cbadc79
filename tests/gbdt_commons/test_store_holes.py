"""What a power failure leaves of a store: sectors that were never written, anywhere behind the last sync."""

import itertools
import os
import random

import pytest
from gbdt_commons.store_journal import Journal

from gbdt_commons.errors import StoreError
from gbdt_commons.store import bytes_kind, json_kind
from gbdt_commons.store_file import StoreFile

NUMBERS, BLOBS = json_kind("numbers"), bytes_kind("blobs")
SECTOR = 512


def opened(path, **options):
    return StoreFile(path, "a tester", **options)


def contents(store):
    return [{key: list(store.entries(kind, key)) for key in store.keys(kind)} for kind in (NUMBERS, BLOBS)]


class Recorded:
    """A store whose file, state, and end of what is on the disk are known after each transaction."""

    def __init__(self, path, monkeypatch):
        self.path, self.synced = path, 0
        monkeypatch.setattr(os, "fdatasync", self._sync)
        self.store = opened(path)
        self.synced = path.stat().st_size
        self.states = [(self.synced, contents(self.store))]

    def _sync(self, descriptor):
        self.synced = os.fstat(descriptor).st_size

    def change(self, number, size, sync):
        with self.store.transaction(sync=sync):
            self.store.append(NUMBERS, "run", number)
            self.store.put(BLOBS, f"last {number % 3}", random.Random(number).randbytes(size))
        self.states.append((self.path.stat().st_size, contents(self.store)))

    def state_of(self, n_bytes):
        """What was kept when the file had so many bytes."""
        return [state for end, state in self.states if end <= n_bytes][-1]


def sectors_behind(synced, size):
    """Where each sector's bytes begin and end that were not on the disk."""
    edges = [synced, *range(synced - synced % SECTOR + SECTOR, size, SECTOR), size]
    return list(itertools.pairwise(edges))


def with_holes(whole, holes):
    content = bytearray(whole)
    for start, stop in holes:
        content[start:stop] = bytes(stop - start)
    return bytes(content)


@pytest.mark.parametrize("size", [0, 1, 30, 200, 431, 700])
def test_a_power_failure_that_tears_what_was_not_synced_loses_nothing_confirmed(
    tmp_path, monkeypatch, without_waits, size
):
    """Any sectors of the tail may be missing, and the file may end anywhere."""
    recorded = Recorded(tmp_path / "a.store", monkeypatch)
    for number, sync in enumerate([True, False, True, False, False, False]):
        recorded.change(number, size * (1 + number % 3), sync)
    whole, synced = recorded.path.read_bytes(), recorded.synced
    sectors, rng = sectors_behind(synced, len(whole)), random.Random(size)
    ranges = [sectors[a:b] for a, b in itertools.combinations(range(len(sectors) + 1), 2)]
    some = [[one for one in sectors if rng.random() < 0.5] for _ in range(40)]
    n_torn = 0
    for holes in [*ranges, *some]:
        for end in {len(whole), rng.randrange(synced, len(whole) + 1)}:
            copy = tmp_path / "copy.store"
            left = with_holes(whole, holes)[:end]
            copy.write_bytes(left)
            n_same = next((k for k in range(end) if left[k] != whole[k]), end)
            reader = opened(copy, read_only=True)
            assert contents(reader) == recorded.state_of(n_same)
            reader.close()
            assert copy.read_bytes() == left
            store = opened(copy)
            assert contents(store) == recorded.state_of(n_same)
            n_torn += n_same < end
            store.append(NUMBERS, "run", 99)
            expected = contents(store)
            store.close()
            again = opened(copy)
            assert contents(again) == expected
            again.close()
    assert n_torn > len(sectors) // 2
    recorded.store.close()


def test_a_hole_in_what_was_on_the_disk_is_damage(tmp_path, monkeypatch, without_waits):
    """A later entry says that it was; the file stays as it is."""
    recorded = Recorded(tmp_path / "a.store", monkeypatch)
    for number in range(6):
        recorded.change(number, 900, sync=number % 2 == 0)
    whole, copy, n_refused = recorded.path.read_bytes(), tmp_path / "copy.store", 0
    # The last entry was not synced; it says that those up to the fifth were.
    proven = recorded.states[-2][0]
    assert recorded.synced == proven
    for start, stop in sectors_behind(0, len(whole)):
        left = with_holes(whole, [(start, stop)])
        copy.write_bytes(left)
        if stop <= proven:
            with pytest.raises(StoreError, match=r"'copy.store' cannot be used: .*(damaged|no store)"):
                opened(copy)
            assert copy.read_bytes() == left
            n_refused += 1
        else:
            # If the sector has the end of the fifth entry, too, the proof has gone with it.
            store = opened(copy)
            assert contents(store) == recorded.states[-3 if start < proven else -2][1]
            store.close()
    assert n_refused > 8
    recorded.store.close()


@pytest.mark.parametrize("n", [1, 3000])
def test_a_hole_in_a_file_that_was_written_anew_is_damage(tmp_path, monkeypatch, without_waits, n):
    """It got its name once all of it was on the disk, also if nothing was changed since."""
    recorded = Recorded(tmp_path / "a.store", monkeypatch)
    for number in range(n):
        recorded.store.append(NUMBERS, "run", number)
    recorded.store.append(BLOBS, "gone", b"content")
    before = recorded.path.stat().st_ino
    recorded.store.delete(BLOBS, "gone")
    assert recorded.path.stat().st_ino != before
    whole, copy = recorded.path.read_bytes(), tmp_path / "copy.store"
    sectors = [one for one in sectors_behind(0, len(whole)) if one[1] <= len(whole) - SECTOR]
    for start, stop in sectors[:: max(1, len(sectors) // 40)]:
        copy.write_bytes(with_holes(whole, [(start, stop)]))
        with pytest.raises(StoreError, match=r"damaged|no store"):
            opened(copy)
    recorded.store.close()


def test_what_takes_the_place_of_a_failed_transaction_has_holes_of_zeros(
    tmp_path, monkeypatch, without_waits
):
    """What was cut off is off the disk before anything else is written there."""
    recorded, cuts = Recorded(tmp_path / "a.store", monkeypatch), []
    recorded.change(0, 10, sync=True)
    real = os.ftruncate

    def cut(descriptor, size):
        real(descriptor, size)
        recorded.synced = None
        cuts.append(size)

    monkeypatch.setattr(os, "ftruncate", cut)

    def failing(journal):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "_keep", failing)
        with pytest.raises(MemoryError), recorded.store.transaction(sync=False):
            recorded.store.put(BLOBS, "failed", bytes([7]) * 3000)
    assert cuts == [recorded.states[-1][0]]
    assert recorded.synced == cuts[0]
    recorded.change(1, 100, sync=False)
    assert recorded.synced == cuts[0]
    recorded.store.close()


def test_a_bit_that_has_changed_is_no_hole(tmp_path, monkeypatch, without_waits):
    """Also in entries that were never synced."""
    recorded = Recorded(tmp_path / "a.store", monkeypatch)
    recorded.change(0, 10, sync=True)
    recorded.change(1, 1500, sync=False)
    whole, copy = recorded.path.read_bytes(), tmp_path / "copy.store"
    for place in range(recorded.synced, len(whole), 7):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        copy.write_bytes(changed)
        with pytest.raises(StoreError, match="damaged"):
            opened(copy)
    recorded.store.close()
