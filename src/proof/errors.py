"""The one exception for a user's mistake."""

from __future__ import annotations


class ProofError(Exception):
    """Something given is not what was expected; the message says what, and what to do.

    The command line prints the message as one line and exits with status 2.
    """


class InputError(ProofError, ValueError):
    """Arrays that do not fit; a ValueError too, as scikit-learn's tools expect of an estimator."""
