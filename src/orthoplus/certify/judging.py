"""Apply the bound of a certificate to other answers to the same problem."""

from dataclasses import replace
from typing import Any

import numpy as np

from orthoplus.certify.certificate import Certificate, Progress
from orthoplus.certify.model import Model, read_answer
from orthoplus.certify.stability import agreement_of, unsure_mass
from orthoplus.core.point import SupportPoint
from orthoplus.core.problem import Problem


def judge(certificate: Certificate, problem: Problem, answer: Any) -> Certificate:
    """Certify another answer by the same bound and the same proof.

    The result keeps the better of the two partitions as the best known one.

    Examples
    --------
    >>> import orthoplus as op
    >>> problem = op.problems.KMeans(np.array([[0.0], [1.0], [9.0], [11.0]]), 2)
    >>> certificate = op.certify(problem, [0, 0, 1, 1])
    >>> judged = judge(certificate, problem, [0, 0, 0, 1])
    >>> judged.is_optimal, judged.improved, judged.labels
    (False, True, array([0, 0, 1, 1]))
    """
    model = Model(problem)
    labels, weights = read_answer(answer, model)
    point = model.answer_point(labels, weights)
    value = model.value_of(point)
    if value < certificate.bound - model.rounding:
        raise ArithmeticError(
            f"The lower bound {certificate.bound:.10g} ({certificate.kind}) is above the value "
            f"{value:.10g} of the answer by more than rounding ({model.rounding:.2g}). This is "
            f"a bug in orthoplus, not a problem with your input. Please report it."
        )
    is_worse = value > certificate.best_value + model.rounding
    bound = min(certificate.bound, value)
    unsure = None
    if certificate.confidence is None:
        unsure = unsure_mass(model, point, certificate.proof)
    x = np.asarray(point.weights, dtype=np.float64)
    best_value = min(value, certificate.best_value)
    last = Progress(certificate.seconds, best_value, bound, certificate.kind)
    return replace(
        certificate,
        value=value,
        bound=bound,
        gap=model.gap(value, bound),
        labels=certificate.labels if is_worse else labels,
        best_value=certificate.best_value if is_worse else value,
        improved=is_worse,
        agreement=None if unsure is None else agreement_of(x, unsure),
        unsure=unsure,
        history=(*certificate.history, last),
        answer=point.labels,
        weights=x,
        problem=problem,
    )


def best_point(certificate: Certificate, problem: Problem) -> SupportPoint:
    """Return the point of S+ of the best known partition, with optimal weights."""
    model = Model(problem)
    is_answer = np.array_equal(certificate.labels, certificate.answer)
    weights = certificate.weights if is_answer else None
    return model.answer_point(certificate.labels, weights)
