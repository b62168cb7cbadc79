"""One party's side of a run of rounds with one other: nothing is answered twice, and nothing is lost.

Modules, from the ground up: `terms` (who computes with whom), `frames` and `polled` (messages on their way),
`kept` (what survives a crash), `connection` (a session in which both sides know where the run is), `driver`
(rounds, charged before noise leaves and opened once) and `replay` (an auditor's).  All of it are steps that
stop where a message is due (`gbdt_parties.run.engine`), so that no side needs a thread to wait in.
"""
