"""Randomness comes from the operating system, anew for every training run and process."""

import os
import random

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

import lgb_dp
from lgb_dp.mechanisms.rng import SecureRandom
from small_training import binary_data, dataset, leaf_values, train

X, Y = binary_data()


def test_seeding_every_common_generator_changes_nothing():
    models = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        random.seed(0)
        models.append(leaf_values(train(dataset(X, Y), lgb_dp.DPBoost(1.0))))
    assert (models[0] != models[1]).any()


def test_random_state_repeats_but_warns_and_is_reported():
    models = []
    for _ in range(2):
        with pytest.warns(lgb_dp.PrivacyLeakWarning, match="random_state"):
            booster = train(dataset(X, Y), lgb_dp.DPBoost(1.0, random_state=3))
        assert not booster.privacy.private
        models.append(booster.model_to_string())
    assert models[0] == models[1]


def test_the_random_stream_is_not_shared_with_a_forked_process(monkeypatch):
    stream = SecureRandom()
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(lgb_dp.ForkedProcessError):
        stream.words(1)
    with pytest.raises(lgb_dp.ForkedProcessError):
        stream.refuse_fork()  # of its own, for noise that was drawn before


def test_the_stream_is_chacha20_under_a_key_of_the_operating_system(monkeypatch):
    asked = []
    monkeypatch.setattr("os.urandom", lambda n: asked.append(n) or bytes(range(n)))
    stream = SecureRandom()
    words = [stream.words(3), stream.words(2, 2)]
    cipher = Cipher(algorithms.ChaCha20(bytes(range(32)), bytes(16)), mode=None)
    assert asked == [32]
    assert b"".join(w.tobytes() for w in words) == cipher.encryptor().update(bytes(56))


def test_every_training_and_every_set_of_folds_has_a_key_of_its_own(monkeypatch):
    asked, urandom, data = [], os.urandom, dataset(X, Y)
    monkeypatch.setattr("os.urandom", lambda n: asked.append(n) or urandom(n))
    for _ in range(2):
        train(data, lgb_dp.DPBoost(1.0))
    lgb_dp.folds(3, data)
    assert asked.count(32) == 3
