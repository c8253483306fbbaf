"""The parameters of EP4Orth+ in the experiments of section 6."""

from typing import Any, Self

from orthoplus.methods.newton import RegularizedNewton
from orthoplus.methods.palm import PALM
from orthoplus.methods.projected_gradient import ProjectedGradient
from orthoplus.methods.search.polish import Polish


class PaperPresets:
    """Add the parameters of the paper's experiments to EP4Orth.

    Examples
    --------
    >>> import orthoplus as op
    >>> op.EP4Orth.for_projection(max_iter=50).penalty_growth
    5.0
    """

    @classmethod
    def for_projection(cls, **changes: Any) -> Self:
        """Return the paper's parameters for the projection onto S+, section 6.1.

        The paper does not state its first tolerance; this value reproduces the numbers of
        projections and of solved instances in its table, and a larger one solves more instances.
        The paper does not state either when a run that no longer improves ends: here ``patience``
        ends it, and ``max_iter`` is 1000 instead of t_max = 300 in section 6, so that it is never
        the limit.
        """
        step = ProjectedGradient(
            step_rule="fixed", step_fraction=0.99, criterion="step", min_iter=3, max_iter=100
        )
        paper: dict[str, Any] = {
            "inner": step,
            "penalty_start": 1e-2,
            "penalty_unit": 1.0,
            "penalty_growth": 5.0,
            "tol_start": 1.5,
            "tol_decay": 0.8,
            "max_iter": 1000,
            "patience": 5,
            "safeguard": False,
        }
        return cls(**(paper | changes))

    @classmethod
    def for_onmf(cls, *, size: float = 1.0, **changes: Any) -> Self:
        """Return the paper's parameters for ONMF, section 6.2, with ``size`` = ||A||_F^2."""
        newton = RegularizedNewton(
            shrink=0.98, grow=1.3, tau_unit=size, criterion="step", max_iter=20
        )
        paper: dict[str, Any] = {
            "inner": ProjectedGradient(criterion="step", min_iter=3, max_iter=20),
            "second_order": newton,
            "switch_violation": 5.0,
            "penalty_start": 1e-3,
            "penalty_unit": size,
            "penalty_growth": 1.05,
            "penalty_growth_late": 1.03,
            "penalty_max": 1e5,
            "tol_start": 0.1,
            "tol_decay": 0.98,
            "safeguard": False,
        }
        return cls(**(paper | changes))

    @classmethod
    def for_unmixing(cls, *, size: float = 1.0, **changes: Any) -> Self:
        """Return the paper's parameters for images, section 6.2, with ``size`` = ||A||_F^2.

        The run stops far from S+, so that rounding and refinement, or a polish, must follow, as in
        `solve`.
        """
        paper: dict[str, Any] = {
            "switch_violation": 0.6,
            "penalty_growth": 1.1 * 1.05,
            "penalty_growth_late": 1.1 * 1.03,
            "feasibility_tol": 0.3,
        }
        return cls.for_onmf(size=size, **(paper | changes))

    @classmethod
    def for_indicators(cls, k: int, **changes: Any) -> Self:
        """Return the paper's parameters for K-indicators, section 6.3, followed by a polish.

        The inner solver is the alternation of eqs. (6.6a) and (6.6b) without a line search. Use
        ``feasibility_tol=1e-5, polish=None`` to reproduce the paper's tables. The default 0.1 is
        the value stated in the paper, from which the polish reaches the same or better points.
        """
        x_step = ProjectedGradient(
            step_unit="penalty", first_step=10.0, step_max=10.0 * k, search=False, criterion="step"
        )
        paper: dict[str, Any] = {
            "inner": PALM(x_step=x_step, criterion="step", min_iter=3, max_iter=50),
            "penalty_start": 10.0,
            "penalty_unit": 1.0,
            "penalty_growth": 10.0,
            "penalty_max": 1e5,
            "tol_start": 5e-2,
            "tol_decay": 0.5,
            "feasibility_tol": 0.1,
            "patience": 5,
            "safeguard": False,
            "polish": Polish(tol=1e-5),
        }
        return cls(**(paper | changes))

    @classmethod
    def for_assignment(cls, *, size: float = 1.0, **changes: Any) -> Self:
        """Return parameters of a short run for n = k; ``size`` is `QAP.size`.

        The run stops far from S+, so that rounding and exchanges must follow, as in
        `quadratic_assignment`.
        """
        short: dict[str, Any] = {
            "inner": ProjectedGradient(step_rule="alternating", criterion="step", max_iter=5),
            "penalty_start": 1.0,
            "penalty_unit": size,
            "penalty_growth": 3.0,
            "tol_start": 0.1,
            "feasibility_tol": 1.0,
            "max_iter": 40,
            "patience": 4,
            "safeguard": False,
        }
        return cls(**(short | changes))
