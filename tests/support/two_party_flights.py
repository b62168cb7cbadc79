"""Two sides of a run in one process, each with a store, which crash where a test says."""

from collections import deque
from contextlib import contextmanager
from threading import Condition, Thread
from types import SimpleNamespace

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gbdt_commons.key_stream import KeyStream
from gbdt_commons.store import MemoryStore, json_kind
from gbdt_parties.errors import PartyUnavailableError
from gbdt_parties.run.engine import carried_out
from gbdt_parties.run.flights.driver import Inputs, PointExchange, TableExchange
from gbdt_parties.run.flights.kept import Charge, Connection, KeptFailures, RoundAttempt, Signature
from gbdt_parties.run.flights.terms import Terms
from gbdt_parties.two_party.layout import RoundLayout, TreeLayout
from gbdt_parties.two_party.names import Seat
from two_party_oracle import leaf_sums

RUN = b"run".ljust(32, b".")
SEEDS = b"1" * 32, b"2" * 32
KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([k]) * 32) for k in (1, 2)]
SEATS = [Seat(k, key.public_key().public_bytes_raw()) for k, key in enumerate(KEYS)]
LEDGER = json_kind("a test's ledger")


class Killed(BaseException):
    """The end of a process."""


def terms_of(place, n_rounds=2, run=RUN, seed=None):
    names = ("hospital", "bank")
    other = names[1 - place]
    return Terms(
        run, SEATS[place], SEATS[1 - place], other, other, seed or SEEDS[place], KEYS[place], n_rounds
    )


def layout_of(n=70, owners=(0, 1), ring_bits=48, levels=2, n_points=4):
    trees = tuple(TreeLayout((place,), 0, levels) for place in owners)
    positions = tuple(np.linspace(-12, 12, n_points).tolist())
    return RoundLayout(tuple(SEATS), n, positions, 1, ring_bits, trees, (1.0, 0.3), rows_per_message=64)


def words_of(stream, shape, below=None):
    words = stream.words(int(np.prod(shape))).reshape(shape)
    return words if below is None else (words % np.uint64(below)).astype(np.uint8)


class Party:
    """One party over all its processes: its store, and the inputs of every attempt, as it drew them.

    Parameters
    ----------
    place : int
    layouts : list of RoundLayout
        Of all rounds.
    store : Store
    data : bytes
        Key of the tables, points and leaves, which are the same at all attempts of a round.
    """

    def __init__(self, place, layouts, store=None, data=b"d" * 32, terms=None, check=None):
        self.place, self.layouts, self.data = place, layouts, data
        self.store = MemoryStore() if store is None else store
        self.terms = terms or terms_of(place, len(layouts))
        self.check = check or (lambda layout, sums: None)
        self.inputs, self.nonce = {}, None
        self.events = Events()

    def process(self, store=None):
        """A new process of this party's."""
        cls = PointExchange if self.place else TableExchange
        store = store or CountedStore(self.store, self.events)
        return cls(self.terms, store, KeptFailures(store, self.terms.peer), self.check)

    def inputs_of(self, number):
        """Inputs to a round, of which noise and dither are drawn anew for every attempt."""
        layout = self.layouts[number]
        own = layout.owned_by(self.place)

        def draw(draws):
            fixed = KeyStream(
                bytes(a ^ b for a, b in zip(self.data, bytes([8 * number + self.place]) * 32, strict=True))
            )
            noise_stream, dither = draws.stream(b"noise"), draws.stream(b"dither")
            noise = [words_of(noise_stream, 1 << tree.levels) for tree in layout.trees]
            leaves = [words_of(fixed, layout.n_rows, 1 << layout.trees[t].levels) for t in own]
            given = SimpleNamespace(noise=noise, leaves=dict(zip(own, leaves, strict=True)))
            if self.place == 0:
                given.tables = words_of(fixed, (layout.n_rows, len(layout.positions), layout.n_outputs))
                given.tables = given.tables + words_of(dither, given.tables.shape, 2)
                made = Inputs(lambda first, last: given.tables[first:last], leaves, noise)
            else:
                given.points = words_of(fixed, layout.n_rows, len(layout.positions))
                made = Inputs(given.points, leaves, noise)
            self.inputs[draws.nonce] = given
            return made

        return draw

    def pay(self):
        """Charge in the party's ledger, which is in its store."""
        self.store.append(LEDGER, "charges", 1)

    @property
    def n_paid(self):
        return self.store.size(LEDGER, "charges")

    def train(self, exchange):
        """All rounds, each with its sums."""
        sums = []
        for number, layout in enumerate(self.layouts):
            sums.append((yield from exchange.round(number, layout, self.inputs_of(number), self.pay)))
        yield from exchange.end()
        return [[one.tolist() for one in of_round] for of_round in sums]


class Events:
    """Sends, receipts and commits of one party, at one of which its process ends."""

    def __init__(self):
        self.kill_at, self.n_events, self.trace = None, 0, []

    def happens(self, what):
        """Note an event; ends the process if it is the one."""
        self.n_events += 1
        self.trace.append(what)
        if self.n_events == self.kill_at:
            raise Killed(what)


class CountedStore:
    """A store whose outermost transactions are events: the process can end before and after each of them."""

    def __init__(self, store, events):
        self._store, self._events, self._depth = store, events, 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    def transaction(self, *, sync=True):
        @contextmanager
        def whole():
            outer = self._depth == 0
            if outer:
                assert sync
            self._depth += 1
            try:
                with self._store.transaction(sync=sync):
                    yield
                    if outer:
                        self._events.happens("before a commit")
            finally:
                self._depth -= 1
            if outer:
                self._events.happens("after a commit")

        return whole()

    def append(self, kind, key, value):
        with self.transaction():
            self._store.append(kind, key, value)


class CountedChannel:
    """A channel whose messages are events, kept and counted."""

    def __init__(self, channel, events):
        self._channel, self._events = channel, events
        self.hand_over = channel.hand_over
        self.sent, self.received = [], []

    def send(self, message):
        self._events.happens("before a message was sent")
        self._channel.send(message)
        self.sent.append(bytes(message))
        self._events.happens("after a message was sent")

    def receive(self):
        message = self._channel.receive()
        self.received.append(bytes(message))
        self._events.happens("a message was received")
        return message


class Heard:
    """A channel with the messages of another one, after which the connection is lost."""

    def __init__(self, received):
        self._received, self.sent = iter(received), []

    def send(self, message):
        self.sent.append(message)

    def hand_over(self):
        """Messages have left already."""

    def receive(self):
        for message in self._received:
            return message
        raise PartyUnavailableError("the record of this connection ends here")


class Watched:
    """One end of a connection that is lost as soon as both sides wait for each other.

    Parameters
    ----------
    ends : list
        Both ends; this one appends itself.
    turn : Condition
        Of both.
    """

    def __init__(self, ends, turn):
        self._ends, self._turn, self._place = ends, turn, len(ends)
        self.inward, self.is_waiting, self.is_closed = deque(), False, False
        ends.append(self)

    @property
    def _other(self):
        return self._ends[1 - self._place]

    def send(self, message):
        with self._turn:
            self._other.inward.append(message)
            self._turn.notify_all()

    def hand_over(self):
        """Messages have left already."""

    def receive(self):
        with self._turn:
            self.is_waiting = True
            while not self.inward and not self.is_closed:
                if self._other.is_waiting and not self._other.inward:
                    self._end()
                else:
                    self._turn.wait()
            self.is_waiting = False
            if self.inward:
                return self.inward.popleft()
            raise PartyUnavailableError("the other party is silent, or has ended the connection")

    def close(self):
        with self._turn:
            self._end()

    def _end(self):
        for one in self._ends:
            one.is_closed = True
        self._turn.notify_all()


def watched():
    """Both ends of a connection in which no silence lasts."""
    ends, turn = [], Condition()
    return Watched(ends, turn), Watched(ends, turn)


def whole(party, exchange, channel):
    """The steps of a connection."""
    return exchange.over(channel, party.train, party.nonce)


def meet(parties, processes=None, change=None, connection=watched):
    """One connection of both parties: connects, trains, and gives what came out at either, or its error.

    Parameters
    ----------
    parties : (Party, Party)
    processes : (Exchange, Exchange), optional
        By default new ones.
    change : callable, optional
        Puts a channel around that of a place.
    connection : callable
        Makes both ends.

    Returns
    -------
    list of SimpleNamespace
        With `sums` or `error`, and `channel`.
    """
    processes = processes or [party.process() for party in parties]
    outcomes = [SimpleNamespace(sums=None, error=None) for _ in parties]
    ends = connection()

    def live(place):
        channel = CountedChannel(ends[place], parties[place].events)
        outcomes[place].channel = channel
        changed = change(place, channel) if change else channel
        try:
            steps = whole(parties[place], processes[place], changed)
            outcomes[place].sums = carried_out(steps, changed.receive)
        except BaseException as error:
            outcomes[place].error = error
        finally:
            ends[place].close()

    other = Thread(target=live, args=(1,))
    other.start()
    live(0)
    other.join(600)
    assert not other.is_alive()
    return outcomes


def central_sums(layout, a, b):
    """Opened sums of an attempt, from what both drew for it."""
    entries = a.tables[np.arange(layout.n_rows), b.points]
    ring = np.uint64((1 << layout.ring_bits) - 1)
    leaves = a.leaves | b.leaves
    for t, tree in enumerate(layout.trees):
        sums = np.array(leaf_sums(entries[:, tree.output], leaves[t], tree.levels), np.uint64)
        yield (sums + a.noise[t] + b.noise[t] & ring).tolist()


def check_outcome(parties):
    """All that must hold at the end of a run, however often it was interrupted."""
    kept = [party.process().kept for party in parties]
    layouts = parties[0].layouts
    for number, layout in enumerate(layouts):
        one, other = (of.opened(number) for of in kept)
        assert (one.digest, one.sums, one.chain, one.signed) == (
            other.digest,
            other.sums,
            other.chain,
            other.signed,
        )
        drawn = [party.inputs[one.digest] for party in parties]
        words = np.frombuffer(one.sums, "<u8").tolist()
        assert words == [word for of_tree in central_sums(layout, *drawn) for word in of_tree]
    for party, of in zip(parties, kept, strict=True):
        charges, attempts = of.all(Charge), of.all(RoundAttempt)
        numbers = [one.number for one in attempts]
        assert numbers == sorted(set(numbers))
        assert len(charges) == len({one.number for one in charges}) == party.n_paid
        assert {one.number for one in charges} <= set(numbers)
        assert len({one.nonce for one in of.all(Connection)}) == len(of.all(Connection))
        assert len(of.all(Signature)) == len(layouts)
        shares = [one.own for one in charges if one.own]
        assert len(set(shares)) == len(shares)
        assert max(numbers) <= party.terms.max_attempts


def survive(parties, kills, both=False):
    """A whole run, whose connections are interrupted one after the other.

    Parameters
    ----------
    parties : (Party, Party)
    kills : list of (int, int)
        Whose process ends in a connection, and at which of its events.
    both : bool
        Whether the other party is restarted, too.

    Returns
    -------
    int
        Processes that were ended.
    """
    processes, n_killed = [party.process() for party in parties], 0
    for place, event in [*kills, (0, None)]:
        for party in parties:
            party.events.n_events, party.events.kill_at = 0, None
        parties[place].events.kill_at = event
        outcomes = meet(parties, processes)
        errors = [one.error for one in outcomes]
        for k, error in enumerate(errors):
            assert error is None or isinstance(error, Killed | PartyUnavailableError), error
            if both or isinstance(error, Killed):
                n_killed += isinstance(error, Killed)
                processes[k] = parties[k].process()
    assert errors == [None, None]
    assert outcomes[0].sums == outcomes[1].sums
    check_outcome(parties)
    return n_killed
