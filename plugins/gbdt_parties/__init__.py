"""Organisations that talk: messages, channels, sessions, transport and identity.

What every federated mode shares, and nothing of trees or ciphers.
"""
