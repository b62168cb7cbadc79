"""The command ``veilboost status``: parties and coordinators in use, and what of them needs a person."""
