"""Private columns apart in a simulated world: two processes, between which connections break."""

from collections import deque
from contextlib import contextmanager

from gbdt_commons.arithmetic import silent_arithmetic
from gbdt_commons.files import is_out_of_room
from gbdt_commons.store import MemoryStore
from gbdt_commons.store_file import StoreFile
from gbdt_parties.errors import PartyUnavailableError
from gbdt_parties.run.flights.frames import HEADER_BYTES, FrameKind, heading
from quick_group import quick_group
from simulated_world import CALMS_AFTER, MOST_CALLS, OLDER_COPY, Killed, Process, demand
from two_party_flights import Party, check_outcome, layout_of

LAYOUTS = [layout_of(9), layout_of(8, owners=(1, 0, 0), ring_bits=64)]
STORE = "columns.store"
AT_STEPS = "connection lost", "killed before", "killed after", "power lost after", OLDER_COPY
AT_SENDS = ("killed at a send", "connection lost at a send")


class Once(dict):
    """Inputs by the nonces of their draws, none of which is used twice."""

    def __setitem__(self, nonce, given):
        demand(nonce not in self, "noise was drawn twice")
        super().__setitem__(nonce, given)


class Side(Process):
    """One party over all its processes, and its end of the connection under way."""

    def __init__(self, world, place):
        super().__init__(world, ("hospital", "bank")[place])
        self.party, self.exchange, self.shown = Party(place, LAYOUTS, MemoryStore()), None, {}
        self.party.inputs = Once()

    def leave(self, **how):
        super().leave(**how)
        self.exchange = None

    def begin(self, other):
        """Begin a connection, in a new process if there is none."""
        self.inward, self.other, self.result = deque([None]), other, None
        self.is_over, self.steps = True, iter(())
        if self.exchange is None:
            self.party.store = StoreFile(self.folder / STORE, "a tester")
            self.exchange = self.party.process(self.party.store)
        self.steps, self.is_over = self.exchange.over(self, self.party.train), False

    def hand_over(self):
        """Messages have left already."""

    def send(self, message):
        """A message leaves; noised shares are charged for, and the only ones of their attempt."""
        world, message = self.world, bytes(message)
        kind, step, _ = heading(message)
        if kind == FrameKind.SHARES and not world.is_rolled_back:
            body = message[HEADER_BYTES:]
            demand(self.shown.setdefault(step, body) == body, f"{step} was answered twice differently")
            demand(world.is_on_disk(self.folder / STORE), "a charge is not on the disk")
            attempts = {(one.round, one.attempt) for one in self.shown}
            demand(self.party.n_paid >= len(attempts), "shares have left before they were charged")
        fate = world.strike(AT_SENDS, self.name)
        if fate == "killed at a send":
            self.leave()
            raise Killed
        if fate is not None:
            raise PartyUnavailableError("the connection is lost")
        self.other.inward.append(message)

    def step(self):
        """Go on with the next message, at which the world may strike."""
        world, fate = self.world, self.world.strike(AT_STEPS, self.name)
        if fate == OLDER_COPY and self.kept is not None:
            world.is_rolled_back = True
            self.leave(copy=self.kept)
            raise Killed
        if fate == "connection lost":
            raise PartyUnavailableError("the connection is lost")
        if fate == "killed before":
            self.leave()
            raise Killed
        if world.random.random() < 0.05:
            self.keep_copy()
        try:
            with silent_arithmetic():
                self.steps.send(self.inward.popleft())
        except StopIteration as end:
            self.result, self.is_over = end.value, True
        if fate in ("killed after", "power lost after"):
            self.leave(power=fate.startswith("power"))
            raise Killed

    def hang_up(self):
        """The other side is gone."""
        if not self.is_over:
            self.steps.throw(PartyUnavailableError("the connection is lost"))

    def goes_on(self, work, *args):
        """Whether some work of this side has come to its end, and not the connection."""
        try:
            work(*args)
            return True
        except (Killed, PartyUnavailableError):
            pass
        except OSError as error:
            if not is_out_of_room(error):
                raise
        self.is_over = True
        return False


class Columns:
    """Two sides, whose rounds have toy tables and points."""

    name = "columns"

    def __init__(self, world):
        self.world, self.sides = world, [Side(world, place) for place in (0, 1)]

    @contextmanager
    def watched(self):
        """Play in a group that costs nothing."""
        with quick_group():
            yield

    def play(self):
        """The sums of both sides, after as many connections as it takes."""
        for call in range(MOST_CALLS):
            self.world.is_calm |= call >= CALMS_AFTER
            if self.connected():
                return [side.result for side in self.sides]
        demand(False, "there is no progress, though faults have stopped")
        return None

    def connected(self):
        """Whether a connection has taken both sides to the end."""
        one, other = self.sides
        is_whole = one.goes_on(one.begin, other) & other.goes_on(other.begin, one)
        while ready := [side for side in self.sides if side.inward and not side.is_over]:
            side = self.world.random.choice(ready)
            is_whole &= side.goes_on(side.step)
            if not is_whole and self.world.random.random() < 0.3:
                break
        for side in self.sides:
            is_whole &= side.is_over
            side.goes_on(side.hang_up)
        return is_whole

    def check(self, result):
        """Both have the same sums, of what both drew."""
        if isinstance(result, Exception):
            demand(self.world.is_rolled_back, f"refused: {result}")
            return
        demand(result[0] == result[1], "the sides have other sums")
        if not self.world.is_rolled_back:
            check_outcome([side.party for side in self.sides])
