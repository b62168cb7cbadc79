"""Outside auditors of our guarantees: code that others wrote, or a second and slow way, set against ours.

Each module is one auditor with one table, and runs in an environment of its own: ``make audits``.  `outcome`
keeps what they saw.  They may import everything; nothing imports them.
"""
