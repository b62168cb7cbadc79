"""gRPC with mutual TLS: a server in front of one party, and the client that calls it."""
