"""The passive party: its session, encrypted histograms, limits and what it keeps."""
