"""Student's t distribution: how unlikely a difference is if its variance is known from few samples only."""

from __future__ import annotations

from functools import lru_cache
from math import copysign, exp, inf, isinf, lgamma, log
from statistics import NormalDist

#: Probabilities below this one are taken for it, so that each has a deviation: 37.
_LEAST = 1e-300
#: The continued fraction ends when a step changes it by no more than this.
_CLOSE = 1e-15
#: It stands for 0 in denominators.
_TINY = 1e-300


def two_sided(t: float, freedom: int) -> float:
    """How often a variable with this many degrees of freedom is at least as far from 0 as this value."""
    if isinf(t):
        return 0.0
    whole = freedom + t * t
    # Of the two equal ways, the one in which nothing is lost by a subtraction from 1.
    if t * t > freedom:
        return _beta(freedom / whole, freedom / 2, 0.5)
    return 1 - _beta(t * t / whole, 0.5, freedom / 2)


def normal_deviation(t: float, freedom: int) -> float:
    """The value of a standard normal variable that is exceeded as often as this one of Student's t, with the same sign."""
    return copysign(-NormalDist().inv_cdf(max(two_sided(t, freedom) / 2, _LEAST)), t)


@lru_cache(maxsize=4096)
def t95(freedom: int) -> float:
    """The distance from 0 within which 95 % of a variable with this many degrees of freedom are: infinite without any."""
    if freedom < 1:
        return inf
    low, high = 1.9, 13.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, freedom) > 0.05 else (low, middle)
    return high


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b) (NIST, Digital Library of Mathematical Functions, 8.17)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        # The continued fraction converges fast on the other side.
        return 1 - _beta(1 - x, b, a)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(1 - x))
    return front / a / _fraction(x, a, b)


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of equation 8.17.22, by Lentz's algorithm as Thompson and Barnett changed it."""
    value, above, below = 1.0, 1.0, 0.0
    for step in range(1, 1000):
        m = step // 2
        if step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        below = 1 / ((1 + term * below) or _TINY)
        above = (1 + term / above) or _TINY
        value *= above * below
        if abs(above * below - 1) <= _CLOSE:
            break
    return value
