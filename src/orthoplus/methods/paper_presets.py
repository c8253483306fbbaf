"""The parameters of EP4Orth+ in the experiments of section 6."""

from typing import Any, Self

from orthoplus.methods.newton import RegularizedNewton
from orthoplus.methods.palm import PALM
from orthoplus.methods.projected_gradient import ProjectedGradient
from orthoplus.methods.search.polish import Polish


class PaperPresets:
    """Gives EP4Orth the parameters of the paper's experiments.

    Examples
    --------
    >>> import orthoplus as op
    >>> op.EP4Orth.for_projection(max_iter=50).penalty_growth
    5.0
    """

    @classmethod
    def for_projection(cls, **changes: Any) -> Self:
        """Return the paper's parameters for the projection onto S+, section 6.1.

        It does not print its first tolerance: this one was chosen because with it the numbers of
        projections and of solved instances come out as in its table. A larger one solves more.
        Nor does it say when a run that no longer improves ends: ``patience`` ends it here, and
        ``max_iter`` is 1000 instead of the t_max = 300 of section 6 so that it never decides.
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
        """Return the paper's parameters for orthogonal NMF, section 6.2; ``size`` is ||A||_F^2."""
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
        """Return the paper's parameters for images, section 6.2; ``size`` is ||A||_F^2.

        They stop far from S+: rounding and refinement, or a polish, must follow, as `solve` does.
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
        """Return the paper's parameters for K-indicators, section 6.3; then a polish.

        The alternation of eqs. (6.6a) and (6.6b), without a search. The paper's tables were made
        with ``feasibility_tol=1e-5, polish=None``: it prints the 0.1 that is taken here, from
        which the polish reaches the same points or better ones.
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
        """Return a short run for n = k; ``size`` is that of the quadratic term, `QAP.size`.

        It ends far from S+: rounding, and exchanges as in `quadratic_assignment`, must follow.
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
