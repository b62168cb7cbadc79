"""The vertical protocol: messages, packed gradients, and splits as the parties name them.

The lowest folder of `xgb_fed.vertical`: it imports none of the others.
"""
