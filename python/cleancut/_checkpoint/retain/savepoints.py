"""Keeps cuts under names, and gives them up, beside whoever runs the query."""

from cleancut._checkpoint.read.cut_reader import CutReader
from cleancut._checkpoint.read.root import Root
from cleancut._format.layout import cut_name, parse_savepoint_name, savepoint_name
from cleancut._format.wrapped import cut_damaged
from cleancut._storage.side_files import side_file_of
from cleancut.errors import CleancutError, error_of


def pin(root: Root, name: str, epoch: int | None) -> int:
    """Keeps a cut under a name; returns its epoch.

    A sweep of the query's driver deletes cuts first, and looks for savepoints afterwards. So a cut
    that is still there after the savepoint is keeps all that it needs.

    Args:
        root: of the checkpoint.
        name: what it is to be called.
        epoch: of the cut; None is the last one.

    Raises:
        RequestError: CLEANCUT_SAVEPOINT_INVALID.
        CorruptedError: the cut is.
    """
    target = savepoint_name(name)
    if parse_savepoint_name(target) != name:
        raise _invalid(root, name, "a name has 1 to 64 letters, digits, dashes and underscores")
    chosen = max(root.epochs(), default=None) if epoch is None else epoch
    if chosen is None:
        raise _invalid(root, name, "there is no cut at all")
    try:
        data = root.objects.read(cut_name(chosen))
    except FileNotFoundError:
        raise _invalid(root, name, f"there is no cut of epoch {chosen}") from None
    # A savepoint that is damaged would keep nothing.
    CutReader(root.objects).cut(chosen)
    if not root.objects.create(target, data) and root.objects.read(target) != data:
        raise _invalid(root, name, "a savepoint has this name already")
    if chosen not in root.epochs():
        unpin(root, name)
        raise _invalid(root, name, f"the cut of epoch {chosen} was swept meanwhile")
    if root.objects.read(target) != data:
        raise cut_damaged(root.objects.path(target), "it is not what was written")
    return chosen


def unpin(root: Root, name: str) -> bool:
    """Gives a savepoint up; whether there was one of this name."""
    target = savepoint_name(name)
    if parse_savepoint_name(target) != name or name not in root.savepoints():
        return False
    root.objects.delete(target)
    root.objects.delete(side_file_of(target))
    return True


def _invalid(root: Root, name: str, detail: str) -> CleancutError:
    return error_of("CLEANCUT_SAVEPOINT_INVALID", name=name, location=root.location, detail=detail)
