"""Clients of state variables that read and write through `StateBatches`.

PySpark's handle creates a client for each variable that a function declares. While a task runs, it
creates these clients instead. Each has a client of PySpark, which reads what is not prefetched, and
whose pages of lists and maps it fills with prefetched elements.
"""

# Numbers of the operations, as in `StateBatches` of the JVM.
VALUE_UPDATE, LIST_PUT, LIST_APPEND, LIST_APPEND_ALL, MAP_UPDATE, MAP_REMOVE, CLEAR = range(7)
REGISTER_TIMER, DELETE_TIMER = 7, 8
EXISTS, VALUE_GET, LIST_GET, MAP_GET, MAP_CONTAINS, MAP_ENTRIES, MAP_KEYS, MAP_VALUES = range(8)


def replace_clients(batches):
    """Makes PySpark's handles create the clients of this module.

    Args:
        batches: `StateBatches` of the task.

    Returns:
        A function that restores PySpark's clients.
    """
    from pyspark.sql.streaming import stateful_processor as module

    names = {
        "ValueStateClient": ValueClient,
        "ListStateClient": ListClient,
        "MapStateClient": MapClient,
    }
    plain = {name: getattr(module, name) for name in names}

    def create(name):
        def created(client, *schemas):
            made = plain[name](client, *schemas)
            return names[name](made, batches) if client is batches.client else made

        return created

    for name in names:
        setattr(module, name, create(name))

    def restore():
        for name, kind in plain.items():
            setattr(module, name, kind)

    return restore


def tuples(schema):
    """The function that converts the fields of a row to a tuple, as PySpark does."""
    if not schema._needSerializeAnyField:
        return tuple
    return lambda values: tuple(schema.fromInternal(values))


def _exists(client, state):
    """Whether the key has a value, an element or an entry."""
    answer = client._batches.read(EXISTS, state)
    return client._plain.exists(state) if answer is None else answer[0]


def _clear(client, state):
    """Removes the value, all elements or all entries."""
    client._batches.write(CLEAR, state, None)


class ValueClient:
    """Replaces PySpark's `ValueStateClient`.

    Args:
        plain: PySpark's client of the variable.
        batches: `StateBatches` of the task.
    """

    def __init__(self, plain, batches):
        self._plain = plain
        self._batches = batches
        self._convert = tuples(plain.schema)

    def get(self, state):
        """The value, as a tuple, or None."""
        answer = self._batches.read(VALUE_GET, state)
        if answer is None:
            return self._plain.get(state)
        (values,) = answer
        return None if values is None else self._convert(values)

    def update(self, state, value):
        """Replaces the value."""
        self._batches.write(VALUE_UPDATE, state, self._batches.internal(self._plain.schema, value))

    exists, clear = _exists, _clear


class ListClient:
    """Replaces PySpark's `ListStateClient`.

    Args:
        plain: PySpark's client of the variable.
        batches: `StateBatches` of the task.
    """

    def __init__(self, plain, batches):
        self._plain = plain
        self._batches = batches
        self._pages = Pages(batches, plain.data_batch_dict)
        self._convert = tuples(plain.schema)

    def get(self, state, iterator):
        """The next element of an iterator, and whether it is the last."""
        self._pages.fill(iterator, LIST_GET, state, self._convert)
        return self._plain.get(state, iterator)

    def put(self, state, values):
        """Replaces the list."""
        self._batches.write(LIST_PUT, state, self._all(values))

    def append_value(self, state, value):
        """Appends an element."""
        self._batches.write(LIST_APPEND, state, self._batches.internal(self._plain.schema, value))

    def append_list(self, state, values):
        """Appends elements."""
        self._batches.write(LIST_APPEND_ALL, state, self._all(values))

    exists, clear = _exists, _clear

    def _all(self, values):
        return [self._batches.internal(self._plain.schema, value) for value in values]


class MapClient:
    """Replaces PySpark's `MapStateClient`.

    Args:
        plain: PySpark's client of the variable.
        batches: `StateBatches` of the task.
    """

    def __init__(self, plain, batches):
        self._plain = plain
        self._batches = batches
        self._pairs = Pages(batches, plain.user_key_value_pair_iterator_cursors)
        self._rows = Pages(batches, plain.user_key_or_value_iterator_cursors)
        self._key, self._value = tuples(plain.user_key_schema), tuples(plain.value_schema)

    def get_value(self, state, key):
        """The value of a key of the map, as a row, or None."""
        answer = self._batches.read(MAP_GET, state, self._pickled(key))
        if answer is None:
            return self._plain.get_value(state, key)
        (values,) = answer
        return None if values is None else self._plain.value_schema.fromInternal(values)

    def contains_key(self, state, key):
        """Whether the map has a key."""
        answer = self._batches.read(MAP_CONTAINS, state, self._pickled(key))
        return self._plain.contains_key(state, key) if answer is None else answer[0]

    def update_value(self, state, key, value):
        """Sets the value of a key of the map."""
        key = self._batches.internal(self._plain.user_key_schema, key)
        value = self._batches.internal(self._plain.value_schema, value)
        self._batches.write(MAP_UPDATE, state, (key, value))

    def get_key_value_pair(self, state, iterator):
        """The next entry of an iterator, and whether it is the last."""
        self._pairs.fill(
            iterator, MAP_ENTRIES, state, lambda pair: (self._key(pair[0]), self._value(pair[1]))
        )
        return self._plain.get_key_value_pair(state, iterator)

    def get_row(self, state, iterator, is_key):
        """The next key or value of an iterator, and whether it is the last."""
        if is_key:
            self._rows.fill(iterator, MAP_KEYS, state, self._key)
        else:
            self._rows.fill(iterator, MAP_VALUES, state, self._value)
        return self._plain.get_row(state, iterator, is_key)

    def remove_key(self, state, key):
        """Removes a key of the map."""
        key = self._batches.internal(self._plain.user_key_schema, key)
        self._batches.write(MAP_REMOVE, state, key)

    exists, clear = _exists, _clear

    def _pickled(self, key):
        client = self._batches.client
        return client._serialize_to_bytes(self._plain.user_key_schema, key)


class Pages:
    """Pages of a PySpark client, which contain the elements that its iterators return next.

    Args:
        batches: `StateBatches` of the task.
        pages: by iterator, PySpark's tuple of page, position, and whether more pages follow.
    """

    def __init__(self, batches, pages):
        self._batches = batches
        self._pages = pages

    def fill(self, iterator, operation, state, convert):
        """Adds the page of an iterator if its elements are prefetched."""
        answer = None if iterator in self._pages else self._batches.read(operation, state)
        if answer is None:
            return
        if not answer[0]:
            raise StopIteration
        self._pages[iterator] = [convert(element) for element in answer[0]], 0, False
