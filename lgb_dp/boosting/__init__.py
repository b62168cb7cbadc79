"""The ground that all private trainers share."""
