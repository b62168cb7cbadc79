"""Organisations that talk: messages, channels, sessions, transport and identity.

Ground of all federated modes, without trees or ciphers.
"""
