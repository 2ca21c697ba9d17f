"""The hash by which a snapshot orders its keys; docs/FORMAT.md, *Index*."""

_FACTOR = 0xD6E8FEB86659FD93
_SEED = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_WORD = 8


def key_hash(key: bytes) -> int:
    """The hash of a key, 32 bits, unsigned."""
    hashed = _SEED ^ len(key)
    whole = len(key) // _WORD * _WORD
    for at in range(0, whole, _WORD):
        word = int.from_bytes(key[at : at + _WORD], "little")
        hashed = _fold(hashed ^ word) + _SEED & _MASK
    if whole < len(key):
        hashed = _fold(hashed ^ int.from_bytes(key[whole:], "big")) + _SEED & _MASK
    return _fold(hashed) >> 32


def _fold(word: int) -> int:
    """The XOR of the upper and lower half of a signed product of 128 bits."""
    product = _signed(word) * _signed(_FACTOR)
    return (product >> 64 ^ product) & _MASK


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
