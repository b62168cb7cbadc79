"""What may happen to messages between a coordinator and a party."""

from gbdt_parties.errors import PartyUnavailableError
from gbdt_parties.messages import read, write


class Between:
    """Stands between the coordinator and a party, and may lose, repeat or alter messages.

    Parameters
    ----------
    party : Party
    disturb : callable
        Given the number of the call, the message and a function that sends it on, or another message in its
        place; returns the answer.
    """

    def __init__(self, party, disturb=None):
        self.party, self.calls, self.answers = party, 0, []
        self.disturb = disturb or (lambda number, message, send: send())

    @property
    def name(self):
        return self.party.name

    def handle(self, request):
        self.calls += 1
        envelope = read(request)

        def send(message=None):
            content = request if message is None else write(envelope.session, envelope.sequence, message)
            answer = self.party.handle(content)
            self.answers.append((read(content).message, read(answer).message))
            return answer

        return self.disturb(self.calls, envelope.message, send)


def lost(*_):
    raise PartyUnavailableError("lost")
