"""Pages of the documentation that messages and reports name."""

OFFICERS_PAGE = "for the data protection officer: docs/data-protection.md of veilboost's documentation"
"""Line of every report: the page is named by its title and its path."""
