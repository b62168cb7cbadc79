"""What was released, what it cost, and the report of it."""
