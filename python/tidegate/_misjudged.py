"""How often detectors err, and what share of segments is behind policers in truth, given the share that was judged so."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

#: The quantile of the normal distribution for intervals of 95 %.
Z95 = 1.959964


class Tested(NamedTuple):
    """A detector's verdicts on transfers whose cause is known."""

    #: Transfers behind policers.
    policed: int
    #: Of these, those that were found to be policed.
    found: int
    #: Transfers with other causes.
    others: int
    #: Of these, those that were taken for policed.
    mistaken: int


class Errors(NamedTuple):
    """How often a detector errs, as far as that is known."""

    #: Among all segments.
    of_all: Tested | None = None
    #: Among lossy ones, with 15 losses or more.
    of_lossy: Tested | None = None


#: By detector, with its default settings, where the server sends: the held-out half of the lab's transfers
#: (studies/verdict/lab.txt). Those without a clear cause, 909 and 302, of which 11 and 9 were taken for policed, count among the
#: others, since reports do not leave such segments out either.
ERRORS = {
    "tidegate": Errors(
        of_all=Tested(policed=2674, found=2639, others=7876 + 909, mistaken=10 + 11),
        of_lossy=Tested(policed=2507, found=2490, others=2804 + 302, mistaken=6 + 9),
    )
}
#: And with this basis: all transfers of a client are judged together.
USUAL_BASIS = "client"


def prevalence(share: float, samples: float, tested: Tested) -> tuple[float, float, float]:
    """What share of segments is policed in truth, with its interval of 95 %, if this share of independent samples was judged so.

    The share is corrected for the detector's errors (Rogan and Gladen, Estimating prevalence from the results of a screening
    test, 1978). The interval counts the choice of samples, and that the errors are known from samples too (Lang and Reiczigel,
    Confidence limits for prevalence of disease adjusted for estimated sensitivity and specificity, 2014). Like Wilson's, it
    suits shares near 0 and 1. It contains 0 if mistakes alone can explain the share.
    """
    policed, found, others, mistaken = tested
    if policed < 1 or others < 1 or not 0 <= found <= policed or not 0 <= mistaken <= others:
        raise ValueError(f"{tested}: found is at most policed, mistaken at most others, and there are some of each")
    if found * others <= mistaken * policed:
        raise ValueError("the detector finds policed transfers no more often than it takes others for policed: its shares say nothing")
    told = found / policed - mistaken / others
    middle = min(max((share - mistaken / others) / told, 0.0), 1.0)
    # Half a success and half a failure for each of z², or one of each, move the estimates away from 0 and 1.
    sensitivity, false = (found + 1) / (policed + 2), (mistaken + 1) / (others + 2)
    apparent = (samples * share + Z95**2 / 2) / (samples + Z95**2)
    told = sensitivity - false
    centre = (apparent - false) / told
    of_policed = sensitivity * (1 - sensitivity) / (policed + 2)
    of_others = false * (1 - false) / (others + 2)
    of_samples = apparent * (1 - apparent) / (samples + Z95**2)
    half = Z95 * sqrt(of_samples + centre**2 * of_policed + (1 - centre) ** 2 * of_others) / told
    centre += 2 * Z95**2 * (centre * of_policed - (1 - centre) * of_others)
    return middle, min(max(centre - half, 0.0), middle), max(min(centre + half, 1.0), middle)
