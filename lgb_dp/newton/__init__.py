"""NewtonBoost: Newton boosting with public structures and Gaussian leaf sums.

`losses` bounds the gradients of a row, `releases` adds them up under noise, `splits` draws trees from public
randomness and from earlier releases.  The modules beside them put a training run together.
"""
