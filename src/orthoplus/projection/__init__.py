"""The projection onto S+, globally optimal with a proof where one is found."""

from orthoplus.projection.certify import CertifiedProjection, project_stiefel_plus

__all__ = ["CertifiedProjection", "project_stiefel_plus"]
