"""Who the parties are, which rows they have in common, and the record of what they exchanged."""
