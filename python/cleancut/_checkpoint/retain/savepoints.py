"""Creates and drops savepoints. The query may run."""

from cleancut._checkpoint.read.cut_reader import CutReader
from cleancut._checkpoint.read.root import Root
from cleancut._format.envelope import cut_damaged
from cleancut._format.layout import cut_name, parse_savepoint_name, savepoint_name
from cleancut._storage.side_files import side_file_of
from cleancut.errors import CleancutError, error_of


def create_savepoint(root: Root, name: str, epoch: int | None) -> int:
    """Creates a savepoint; returns its epoch.

    The query's garbage collection deletes cuts before it lists savepoints. So a cut that exists
    after its savepoint was created keeps all that it needs.

    Args:
        root: root of the checkpoint.
        name: name of the savepoint.
        epoch: epoch of the cut; None is the last one.

    Raises:
        RequestError: CLEANCUT_SAVEPOINT_INVALID.
        CorruptedError: the cut is corrupted.
    """
    target = savepoint_name(name)
    check_name(name, root.location)
    chosen = max(root.epochs(), default=None) if epoch is None else epoch
    if chosen is None:
        raise invalid(name, root.location, "the checkpoint has no cut")
    try:
        data = root.objects.read(cut_name(chosen))
    except FileNotFoundError:
        raise invalid(name, root.location, f"there is no cut of epoch {chosen}") from None
    # A savepoint of a corrupted cut would retain nothing.
    CutReader(root.objects).cut(chosen)
    if not root.objects.create(target, data) and root.objects.read(target) != data:
        raise invalid(name, root.location, "a savepoint has this name already")
    if chosen not in root.epochs():
        drop_savepoint(root, name)
        raise invalid(name, root.location, f"the cut of epoch {chosen} was deleted meanwhile")
    if root.objects.read(target) != data:
        raise cut_damaged(root.objects.path(target), "it is not what was written")
    return chosen


def drop_savepoint(root: Root, name: str) -> bool:
    """Drops a savepoint; returns whether it existed."""
    if name not in root.savepoints():
        return False
    target = savepoint_name(name)
    root.objects.delete(target)
    root.objects.delete(side_file_of(target))
    return True


def check_name(name: str, location: str) -> None:
    """Checks the name of a new savepoint.

    Raises:
        RequestError: CLEANCUT_SAVEPOINT_INVALID.
    """
    detail = ""
    if parse_savepoint_name(savepoint_name(name)) != name:
        detail = "a name has 1 to 64 letters, digits, dashes and underscores"
    elif name.isdecimal():
        detail = "a name of digits only would be read as an epoch"
    if detail:
        raise invalid(name, location, detail)


def invalid(name: str, location: str, detail: str) -> CleancutError:
    """The error of a savepoint that cannot be created."""
    return error_of("CLEANCUT_SAVEPOINT_INVALID", name=name, location=location, detail=detail)
