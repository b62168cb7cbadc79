"""A world of processes, disks, clocks and a network in one thread, in which a seed says what goes wrong.

The process that leads a run asks the others, the nodes.  Wherever a message passes, or a store has changed,
the world may strike.  A process that is killed leaves its folder as it is on the disk at that moment, and
goes on from a copy of it; its objects, on the way out of the code, change the folder of a dead process.
"""

import errno
import json
import os
import random
import shutil
import sqlite3
import time
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager, suppress
from unittest.mock import patch

from gbdt_commons.errors import StoreError, VeilboostError
from gbdt_commons.files import is_out_of_room
from gbdt_commons.store_file import StoreFile
from gbdt_parties.errors import PartyUnavailableError
from kept_stores import end_process
from pinned_draws import pinned_draws

AT_MESSAGES = (
    "lost request",
    "lost answer",
    "request twice",
    "request again later",
    "killed before",
    "restarted before",
    "stopped before",
    "killed after",
    "power lost after",
    "away",
    "slow",
    "leader killed",
    "older copy beside its lock",
    "started twice",
    "lie",
    "older copy",
)
AT_COMMITS = ("killed", "power lost", "full disk")
OLDER_COPY = AT_MESSAGES[-1]
"""Of a whole folder: the party cannot know, so that promises are weaker (`World.is_rolled_back`)."""

MOST_FAULTS, MOST_CALLS, CALMS_AFTER = 6, 40, 30
POOLS = (
    "gbdt_parties.run.coordinator",
    "xgb_fed.horizontal.simfl.turn_taking",
    "xgb_fed.vertical.growing.gradients",
    "xgb_fed.vertical.passive.session",
    "xgb_fed.vertical.training.train",
)


OF_THE_LIVING = shutil.ignore_patterns("*-shm", ".*")


class Violation(AssertionError):
    """A promise that does not hold."""


def demand(holds, what):
    """Stop the world if a promise does not hold."""
    if not holds:
        raise Violation(what)


class Killed(BaseException):
    """The end of a process."""


class Task(Future):
    """Work that is done when the scheduler, or the one who waits for it, says so."""

    def __init__(self, pool, work, args):
        super().__init__()
        self._pool, self._work, self._args = pool, work, args

    def run(self):
        """Do the work."""
        if self.set_running_or_notify_cancel():
            try:
                self.set_result(self._work(*self._args))
            except BaseException as error:
                self.set_exception(error)

    def result(self, timeout=None):
        """Do other work until this is done."""
        self._pool.work_until(self)
        return super().result(0)


class Pool:
    """Stands in for a pool of threads: of several, the seed says whose task is next."""

    def __init__(self, world, n_workers):
        self._world, self._n_workers, self._tasks = world, n_workers, []

    def __enter__(self):
        self._world.pools.append(self)
        return self

    def __exit__(self, *_):
        self.shutdown()
        self._world.pools.remove(self)

    def submit(self, work, *args):
        task = Task(self, work, args)
        self._tasks.append(task)
        return task

    def step(self):
        """Do one task; False if there is none."""
        if not self._tasks:
            return False
        place = self._world.random.randrange(len(self._tasks)) if self._n_workers > 1 else 0
        self._tasks.pop(place).run()
        return True

    def work_until(self, task):
        while not task.done():
            assert self.step(), "a task waits for itself"

    def shutdown(self, wait=True, *, cancel_futures=False):
        while self._tasks:
            self._tasks.pop(0).cancel() if cancel_futures else self.step()


class Process:
    """A process and its folder, which moves whenever the process is killed."""

    def __init__(self, world, name):
        self.world, self.name, self.kept, self._n = world, name, None, 0
        self.folder = world.folder / name / "0"
        self.folder.mkdir(parents=True)
        world.processes.append(self)

    def leave(self, *, power=False, copy=None):
        """Go on from the folder as it is on the disk, or from another one."""
        old, self._n = self.folder, self._n + 1
        new = self.world.folder / self.name / str(self._n)
        shutil.copytree(old if copy is None else copy, new, ignore=OF_THE_LIVING)
        if power:
            for log in new.rglob("*-wal"):
                self._lose(log, old / log.relative_to(new))
        self.folder = new

    def _lose(self, log, of_old):
        size, synced = log.stat().st_size, self.world.synced.get(str(of_old), 0)
        with log.open("r+b") as file:
            file.truncate(self.world.random.randint(min(synced, size), size))

    def keep_copy(self):
        """Keep a copy of the folder as it is on the disk."""
        self.kept = self.world.folder / self.name / "copy"
        shutil.rmtree(self.kept, ignore_errors=True)
        shutil.copytree(self.folder, self.kept, ignore=OF_THE_LIVING)

    def close(self):
        """Let go of the files of processes that are gone."""
        end_process(self.world.folder / self.name)


class Node(Process):
    """A party that answers; `make` begins its process, in a folder, and the mode sees its answers."""

    def __init__(self, world, name, make, mode):
        super().__init__(world, name)
        self._make, self._mode = make, mode
        self.party, self._away, self._late = None, 0.0, []

    def leave(self, **how):
        super().leave(**how)
        self.party = None

    def handle(self, request):
        """A request on the way to the party, and its answer on the way back."""
        world = self.world
        world.pass_time(self)
        if world.now < self._away:
            self._lost()
        fate, request = world.strike(AT_MESSAGES, self.name), bytes(request)
        if fate == "leader killed":
            world.kill_leader()
        elif fate == "slow":
            world.now += world.random.uniform(0, 4)
        elif fate == "away":
            self._away = world.now + world.random.uniform(0, 60)
            self._lost()
        elif fate == "lost request":
            self._lost()
        elif fate == "stopped before" and self.party is not None:
            self.party.close()
            self.leave()
        elif fate in ("killed before", "restarted before"):
            self.leave()
            if fate == "killed before":
                self._lost()
        elif fate == "older copy beside its lock":
            self._offer_older_copy()
        elif fate == "started twice":
            self._start_twice()
        elif fate == OLDER_COPY and self.kept is not None:
            world.is_rolled_back = True
            self.leave(copy=self.kept)
        if world.random.random() < 0.05:
            self.keep_copy()
        if self._late and world.random.random() < 0.2:
            self._serve(self._late.pop())
        answer = self._serve(request)
        if fate == "request twice":
            self._serve(request)
        elif fate == "request again later":
            self._late.append(request)
        elif fate == "lie" and (lie := self._mode.lie(request)):
            self._serve(lie)
            self.leave()
        if fate in ("killed after", "power lost after"):
            self.leave(power=fate.startswith("power"))
        if fate in ("lost answer", "killed after", "power lost after"):
            self._lost()
        world.alive()
        return answer

    def _serve(self, request):
        try:
            if self.party is None:
                self.party = self._make(self.folder)
            answer = bytes(self.party.handle(request))
        except Killed:
            self.world.alive()
            self._lost()
        except OSError as error:
            if not is_out_of_room(error):
                raise
            self._lost()
        self._mode.saw(self, request, answer)
        return answer

    def _lost(self):
        raise PartyUnavailableError(f"party {self.name!r} is lost")

    def _offer_older_copy(self):
        """Check that an older copy is refused where more had come onto the disk for certain."""
        if self.kept is None:
            return
        left = self.folder
        self.leave()
        for store in list(self.folder.rglob("*.store")):
            older = self.kept / store.relative_to(self.folder)
            trial = self.world.folder / self.name / "trial"
            shutil.rmtree(trial, ignore_errors=True)
            if older.exists():
                shutil.copytree(older.parent, trial, ignore=OF_THE_LIVING)
                shutil.copy(f"{store}-lock", trial)
                before = n_records(trial / store.name, trial / "before")
                n_bytes = self.world.synced.get(f"{left / store.relative_to(self.folder)}-wal", 0)
                if n_records(store, trial / "after", n_bytes) > before:
                    with suppress(StoreError), closing(StoreFile(trial / store.name, None)):
                        raise Violation(f"{self.name}: an older copy was taken for the newest")

    def _start_twice(self):
        """Check that a second process cannot use the folder of one that runs."""
        if self.party is not None and list(self.folder.rglob("*.store")):
            with suppress(StoreError), closing(self._make(self.folder)):
                raise Violation(f"{self.name}: two processes use one folder")


def n_records(path, copy, n_bytes=None):
    """Changes that a store has seen, up to a length of its log: of a copy, since its user empties that."""
    shutil.copytree(path.parent, copy, ignore=OF_THE_LIVING)
    path = copy / path.name
    if n_bytes is not None and (log := copy / f"{path.name}-wal").exists():
        os.truncate(log, min(n_bytes, log.stat().st_size))
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT COALESCE(MAX(number), 0) FROM record").fetchone()[0]


def on_disk(world, path, kind):
    """Records of a kind in a store, as JSON has them, that outlive its process and a loss of power."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT content FROM record WHERE is_live AND kind = ?", (kind,)).fetchall()
    return [json.loads(content) for (content,) in rows] if world.is_on_disk(path) else []


class World:
    """One run, or several, of a seed: `strike` says what happens, `trace` what has happened."""

    def __init__(self, seed, folder, is_calm=False):
        self.random, self.folder = random.Random(seed), folder
        self.now, self.trace, self.synced, self.pools, self.processes = 0.0, [], {}, [], []
        self.is_calm, self.is_rolled_back, self.is_dead = is_calm, False, False
        self._n_left = self.random.randint(0, MOST_FAULTS)
        self._rate = 10 ** self.random.uniform(-2.2, -0.7)
        self._share = self.random.uniform(0.2, 1)
        self._chosen = {OLDER_COPY: self.random.random() < 0.15}
        self.leader = Process(self, "leader")

    def strike(self, kinds, where):
        """What goes wrong at a place, or None."""
        if self.is_calm or not self._n_left or self.random.random() > self._rate:
            return None
        kind = self.random.choice(kinds)
        if not self._chosen.setdefault(kind, self.random.random() < self._share):
            return None
        self._n_left -= 1
        self.trace.append(f"{kind} at {where}")
        return kind

    def pass_time(self, node):
        """A message is on its way: other work of the leader may be done meanwhile."""
        self.alive()
        self.now += self.random.expovariate(100)
        for pool in self.pools[:1]:
            if self.random.random() < 0.2:
                pool.step()
        self.alive()

    def alive(self):
        """End what a dead leader still does."""
        if self.is_dead:
            raise Killed

    def kill_leader(self, *, power=False):
        self.leader.leave(power=power)
        self.is_dead = True
        raise Killed

    def lead(self, run):
        """The result of a run whose leader is called again until it is there."""
        for call in range(MOST_CALLS):
            self.is_calm |= call >= CALMS_AFTER
            self.is_dead = False
            try:
                result = run(self.leader.folder)
            except Killed:
                continue
            except PartyUnavailableError as error:
                self.trace.append(str(error))
                self.now += 30
                continue
            except OSError as error:
                if not is_out_of_room(error):
                    raise
                continue
            finally:
                self.leader.close()
            return result
        raise Violation("no progress, though faults have stopped")

    def is_on_disk(self, store):
        """Whether all that a store has would outlive a loss of power."""
        log = f"{store}-wal"
        return not os.path.exists(log) or os.path.getsize(log) <= self.synced.get(log, 0)

    # What stands in for the outer world.

    @contextmanager
    def _transaction(self, store, *, sync=True):
        owner, path = None, str(store.path)
        if not store.is_changing:
            owner = next((one for one in self.processes if path.startswith(f"{one.folder}/")), None)
        if owner is None:
            with _changed(store, sync=sync):
                yield
            return
        with _changed(store, sync=sync):
            yield
            self._commit(owner, "before a commit")
        log = f"{path}-wal"
        if os.path.exists(log):
            size = os.path.getsize(log)
            self.synced[log] = size if sync else min(size, self.synced.get(log, 0))
        self._commit(owner, "after a commit")

    def _commit(self, owner, where):
        fate = self.strike(AT_COMMITS, f"{owner.name}, {where}")
        if fate == "full disk" and where.startswith("before"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if fate in ("killed", "power lost"):
            if owner is self.leader:
                self.kill_leader(power=fate == "power lost")
            owner.leave(power=fate == "power lost")
            raise Killed

    def _sleep(self, seconds):
        self.now += seconds

    @contextmanager
    def going_on(self, name):
        """Nothing of the outer world is seen or waited for, and all draws follow from a name."""

        def pool(n_workers, **_):
            return Pool(self, n_workers)

        def transaction(store, *, sync=True):
            return self._transaction(store, sync=sync)

        def wait(tasks, timeout=None):
            for task in list(tasks):
                with suppress(BaseException):
                    task.result()

        with ExitStack() as stack:
            stack.enter_context(pinned_draws(name))
            stack.enter_context(patch.object(StoreFile, "transaction", transaction))
            stack.enter_context(patch.object(time, "monotonic", lambda: self.now))
            stack.enter_context(patch.object(time, "sleep", self._sleep))
            stack.enter_context(patch("gbdt_parties.run.coordinator.monotonic", lambda: self.now))
            stack.enter_context(patch.object(os, "fsync", lambda descriptor: None))
            for module in POOLS:
                stack.enter_context(patch(f"{module}.ThreadPoolExecutor", pool))
            for module in ("gbdt_parties.run.coordinator", "gbdt_parties.patience"):
                stack.enter_context(patch(f"{module}.wait", wait))
            try:
                yield self
            finally:
                for process in self.processes:
                    process.close()


_changed = StoreFile.transaction

NAMED = VeilboostError
"""Errors of ours."""
