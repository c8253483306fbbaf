"""The projection onto S+, with a certificate of global optimality if one is found."""

from orthoplus.projection.certify import CertifiedProjection, project_stiefel_plus

__all__ = ["CertifiedProjection", "project_stiefel_plus"]
