"""Builds of the protocol: a party answers by its own, whatever its caller's is."""

import multiprocessing
from contextlib import contextmanager
from dataclasses import dataclass, field

from gbdt_parties import messages, protocol


@dataclass(frozen=True)
class Build:
    """One build: its versions, what they have added, and its classes of messages where they differ."""

    version: int
    oldest: int
    added: dict = field(default_factory=dict)
    kinds: dict = field(default_factory=dict)

    @contextmanager
    def used(self):
        """Be of this build meanwhile."""
        before = protocol.VERSION, protocol.OLDEST, protocol.ADDED, dict(messages.KINDS)
        numbers = {cls: cls.kind for cls in self.kinds.values()}
        self._set(self.version, self.oldest, self.added, {**messages.KINDS, **self.kinds})
        for number, cls in self.kinds.items():
            cls.kind = number
        try:
            yield
        finally:
            self._set(*before)
            for cls, number in numbers.items():
                cls.kind = number

    @staticmethod
    def _set(version, oldest, added, kinds):
        protocol.VERSION, protocol.OLDEST, protocol.ADDED = version, oldest, added
        messages.KINDS.clear()
        messages.KINDS.update(kinds)
        messages.declared.cache_clear()


class PartyOfBuild:
    """A party of another build, at its end of a connection."""

    def __init__(self, party, build):
        self.name, self.party, self._build, self.heard = party.name, party, build, []

    def handle(self, request):
        """Answer as the build does."""
        with self._build.used():
            answer = self.party.handle(request)
        # Behind four bytes of magic.
        self.heard.append(tuple(int.from_bytes(one[4:6], "little") for one in (request, answer)))
        return answer


@contextmanager
def process_of_build(build, make):
    """A party of another build in a process of its own, as asking sides with threads need it.

    Parameters
    ----------
    build : Build
    make : callable
        Makes the party there.
    """
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe()
    process = spawning.Process(target=_serve, args=(build, make, there), daemon=True)
    process.start()
    try:
        yield _Piped(here.recv(), here)
    finally:
        here.send_bytes(b"")
        process.join()


@dataclass
class _Piped:
    name: str
    pipe: object
    heard: set = field(default_factory=set)

    def handle(self, request):
        """Send a request, wait for the answer, and note its version."""
        self.pipe.send_bytes(request)
        answer = self.pipe.recv_bytes()
        self.heard.add(int.from_bytes(answer[4:6], "little"))
        return answer


def _serve(build, make, pipe):
    with build.used():
        party = make()
        pipe.send(party.name)
        while request := pipe.recv_bytes():
            pipe.send_bytes(party.handle(request))
