"""The noise that releases ask for."""

from lgb_dp.mechanisms import noise


def gaussians_drawn(monkeypatch):
    """The number and the scale of all draws of Gaussian noise from now on."""
    drawn, exact = [], noise.rounded_gaussian
    monkeypatch.setattr(
        noise, "rounded_gaussian", lambda n, scale, r: drawn.append((n, scale)) or exact(n, scale, r)
    )
    return drawn
