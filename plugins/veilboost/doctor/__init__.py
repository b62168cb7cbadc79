"""The command ``doctor``: what would keep a training run or a server from working, before it starts.

Nothing of a file's content is sent; a party is asked for no more than a handshake tells.
"""
