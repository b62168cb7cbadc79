"""Three hospitals behind Flower's nodes."""
