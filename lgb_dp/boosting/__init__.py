"""What every private trainer shares."""
