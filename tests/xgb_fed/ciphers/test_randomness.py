"""Exponents are drawn independently."""

from uniformity import check_uniform, stream


def test_exponents_are_independent():
    """No correlation between the parts modulo p and modulo q: the joint law is the product (616 cells above).

    Here the exponents themselves: rejection leaves no bias toward small numbers, as a modulo reduction would.
    """
    drawn = stream(4).below(22, 22 * 400)[:, 0]
    check_uniform(drawn.tolist(), list(range(22)))
    drawn = stream(5).below((1 << 64) + 1, 3)
    assert drawn.shape == (3, 2)
    nonzero = stream(6).below(3, 900, nonzero=True)[:, 0]
    check_uniform(nonzero.tolist(), [1, 2])
