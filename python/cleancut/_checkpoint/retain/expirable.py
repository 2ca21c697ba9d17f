"""What a checkpoint can be asked to give up."""

import operator
from datetime import timedelta

from cleancut._checkpoint.read.root import Root
from cleancut._checkpoint.retain.expiry import Expiry, expire, sweep


class Expirable:
    """Base of what has a checkpoint's root."""

    _root: Root

    def expire(
        self, *, keep: int | None = None, younger_than: timedelta | str | None = None
    ) -> Expiry:
        """Plans to give up all cuts of a stopped query but some, and what those alone need.

        The last cut stays, and so does all that a savepoint needs. At least one of the two is to be
        given; with both, a cut stays for either.

            checkpoint.expire(keep=10, younger_than="7d").apply()

        Args:
            keep: how many of the last cuts stay; from 1 on.
            younger_than: cuts that were written in this time stay: a timedelta, or a text such as
                "7d", "36h", "30m" or "90s".

        Returns:
            The plan; its `apply` does it.

        Raises:
            RequestError: CLEANCUT_OPERATION_REFUSED, there are no cuts, or this is a copy.
            CorruptedError: what a cut that stays needs cannot be told.
            ValueError: neither is given, or what is given keeps nothing or is no age.
        """
        return expire(self._root, None if keep is None else operator.index(keep), younger_than)

    def sweep(self) -> Expiry:
        """Plans to delete what no cut and no savepoint of a stopped query needs.

        Such are segments of task attempts and of acts that were killed, and what savepoints had
        kept that were given up. All cuts stay.

        Returns:
            The plan; its `apply` does it.

        Raises:
            RequestError: as for `expire`.
            CorruptedError: what a cut needs cannot be told.
        """
        return sweep(self._root)
