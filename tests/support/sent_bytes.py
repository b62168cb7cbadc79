"""Sums of the traffic that was counted."""


def bytes_from(traffic, sender):
    """Bytes that left a party."""
    return sum(flow.bytes for (name, *_), flow in traffic.flows.items() if name == sender)
