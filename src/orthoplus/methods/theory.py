"""The hypotheses of Theorem 4.1, checked against the options of EP4Orth+."""

from typing import Any, Self

from orthoplus.core.checks import check_range
from orthoplus.core.errors import InputError
from orthoplus.core.method import as_oblique_method
from orthoplus.methods.projected_gradient import ProjectedGradient

# Factors that must be below a bound are this share of it by default.
SHARE = 0.95


def largest_smoothing_decay(p: float, growth: float) -> float:
    """Return gamma_2^(-1/p), the upper bound on gamma_1 in Algorithm 1 if p < 1.

    Examples
    --------
    >>> largest_smoothing_decay(0.5, 2.0)
    0.25
    """
    return float(growth ** (-1.0 / p))


def theory_options(changes: dict[str, Any], growth: float) -> dict[str, Any]:
    """Return options for which no condition is unmet, given the changed ones.

    Examples
    --------
    >>> theory_options({"p": 2.0}, 1.25)["tol_decay"]  # 0.95 / 1.25
    0.76
    """
    p, growth = changes.get("p", 1.0), changes.get("penalty_growth", growth)
    growth = max(growth, changes.get("penalty_growth_late") or growth)
    decay = changes.get("smoothing_decay")
    if decay is None:
        # Algorithm 1: gamma_1 < gamma_2^(-1/p) makes sigma_t eps_t^p decrease.
        decay = SHARE * largest_smoothing_decay(p, growth) if p < 1 else 1.0
    # Theorem 4.1: eta < gamma_1^(1-p) / gamma_2, where gamma_1 = 1 for p >= 1.
    tol_decay = SHARE * decay ** (1.0 - p) / growth if p < 1 else SHARE / growth
    return {
        "inner": ProjectedGradient(max_iter=2000),
        "smoothing_start": 1e-2 if p < 1 else 0.0,
        "smoothing_decay": decay,
        "tol_decay": max(tol_decay, 1e-3),
        "tol_min": 0.0,
        "feasibility_tol": 0.0,
    }


def unmet_conditions(method: Any) -> tuple[str, ...]:
    """Return the hypotheses of Theorem 4.1 that the options of an EP4Orth do not satisfy.

    Examples
    --------
    >>> import orthoplus as op
    >>> for condition in unmet_conditions(op.EP4Orth()):
    ...     print(condition)
    `tol_decay=0.9` is not below gamma_1^(1-p) / gamma_2 = 0.833
    `tol_min=1e-07` is not 0
    `feasibility_tol=1e-08` is not 0
    >>> unmet_conditions(op.EP4Orth.for_theory())
    ()
    """
    p, growth, decay = method.p, method.largest_growth, method.decay_of_smoothing
    # The bound on eta in Theorem 4.1.
    bound = decay ** (1.0 - p) / growth if p < 1 else 1.0 / growth
    checks = [
        (
            method.tol_decay < bound,
            f"`tol_decay={method.tol_decay:g}` is not below gamma_1^(1-p) / gamma_2 = {bound:.3g}",
        ),
        (method.tol_start < 1, f"`tol_start={method.tol_start:g}` is not below 1"),
        (method.tol_min == 0, f"`tol_min={method.tol_min:g}` is not 0"),
        (method.feasibility_tol == 0, f"`feasibility_tol={method.feasibility_tol:g}` is not 0"),
        (method.penalty_max == float("inf"), f"`penalty_max={method.penalty_max:g}` is not inf"),
        (
            p < 1 or method.smoothing_start == 0,
            f"`smoothing_start={method.smoothing_start:g}` is not 0 although p >= 1",
        ),
        (p >= 1 or decay > 0, f"`smoothing_decay={decay:g}` is not positive although p < 1"),
        (method.penalty is None, "`penalty` is not the one with powers p and q, (1.8)"),
        (method.patience is None, f"`patience={method.patience}` may end the run early"),
        (method.safeguard, "`safeguard=False` lets the penalized objective rise above X^feas"),
    ]
    unmet = [text for holds, text in checks if not holds]
    for name, solver in (("inner", method.inner), ("second_order", method.second_order)):
        if solver is not None:
            unmet += [f"`{name}` {text}" for text in as_oblique_method(solver).unmet_conditions()]
    return tuple(unmet)


class FollowsTheory:
    """Add checks and options for Algorithm 1 and Theorem 4.1 to EP4Orth.

    Examples
    --------
    >>> import orthoplus as op
    >>> method = op.EP4Orth.for_theory(p=0.5)
    >>> round(method.smoothing_decay, 4), round(method.tol_decay, 4)  # below 0.6944 and 0.6769
    (0.6597, 0.643)
    """

    p: float
    smoothing_start: float
    smoothing_decay: float | None
    penalty_growth: float
    penalty_growth_late: float | None

    def check_smoothing(self) -> None:
        """Raise if eps_0 or gamma_1 does not match p, as required by Algorithm 1."""
        if self.p < 1 and self.smoothing_start == 0:
            raise InputError(
                f"`p={self.p:g}` is below 1, which makes the penalty nonsmooth on S+. "
                f"Set `smoothing_start` above 0, for example 1e-2."
            )
        if self.smoothing_decay is None:
            return
        check_range(self.smoothing_decay, "smoothing_decay", low=0.0, high=1.0)
        bound = largest_smoothing_decay(self.p, self.largest_growth)
        if self.p < 1 and self.smoothing_decay >= bound:
            raise InputError(
                f"`smoothing_decay={self.smoothing_decay:g}` is not below gamma_2^(-1/p) = "
                f"{bound:.3g}, as Algorithm 1 requires for p < 1: sigma_t eps_t^p would not "
                f"decrease. Choose a smaller value, or omit it."
            )

    @property
    def largest_growth(self) -> float:
        """Larger of the two growth factors gamma_2."""
        return max(self.penalty_growth, self.penalty_growth_late or 0.0)

    @property
    def decay_of_smoothing(self) -> float:
        """Factor gamma_1: as given, or the default for p."""
        if self.smoothing_decay is not None:
            return self.smoothing_decay
        return 1.0 if self.p >= 1 else SHARE * largest_smoothing_decay(self.p, self.largest_growth)

    @classmethod
    def for_theory(cls, **changes: Any) -> Self:
        r"""Return options that satisfy the hypotheses of Theorem 4.1; raise if a change does not.

        - :math:`\gamma_2 > 1`, and no largest sigma;
        - :math:`\epsilon_0 = 0` if p >= 1; :math:`\epsilon_0 > 0` and
          :math:`0 < \gamma_1 < \gamma_2^{-1/p}` if p < 1;
        - :math:`0 < \eta < \gamma_1^{1-p} / \gamma_2`, a first tolerance below 1, and no lower
          limit;
        - the safeguard by X^feas, and an inner solver that stops by (4.1) and descends as in (4.2);
        - no stopping by feasibility or patience: the run continues until X is feasible up to
          rounding.

        The theorem is about an infinite sequence, of which ``max_iter`` iterations are computed,
        and requires (4.1) at each of them; ``is_stationary`` in the history says whether the inner
        solver achieved it in its 2,000 iterations. Tolerances are measured in units of the penalty,
        a fixed factor that does not affect the proof. The problem must be a single function f of X:
        use `ONMF` with ``quartic=True``, because its Gauss-Newton model changes from one iteration
        to the next.
        """
        method = cls(**(theory_options(changes, cls.penalty_growth) | changes))
        unmet = unmet_conditions(method)
        if unmet:
            raise InputError(
                f"Theorem 4.1 does not apply to these options: {'; '.join(unmet)}. Omit them, "
                f"or use EP4Orth(...)."
            )
        return method
