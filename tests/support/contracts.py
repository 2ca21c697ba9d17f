"""What `make test` takes of the contract of a sink; whoever takes the long tests has all of it."""

from collections.abc import Callable

from cleancut.testing import SinkContract

TESTS = [name for name in dir(SinkContract) if name.startswith("test_")]
DIES = "test_a_run_that_dies_anywhere_leaves_no_epoch_torn_lost_or_doubled"
FOLLOWED = "test_a_run_that_was_followed_changes_nothing"
SEALED = "test_an_epoch_that_was_sealed_is_finished"
WENT_BACK = "test_what_a_query_has_gone_back_behind_is_undone_or_refused"


def briefly(*kept: str) -> Callable[[type[SinkContract]], type[SinkContract]]:
    """Leaves all other tests of a contract to those who take the long ones, too."""

    def chosen(contract: type[SinkContract]) -> type[SinkContract]:
        for name in set(TESTS) - set(kept):
            setattr(contract, name, None)
        return contract

    return chosen
