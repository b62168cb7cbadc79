from hypothesis import settings

# A busy machine is no error: examples may take as long as they like.
settings.register_profile("veilboost", deadline=None)
settings.load_profile("veilboost")
