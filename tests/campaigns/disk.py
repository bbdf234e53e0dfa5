"""A model of a file system after a power cut, which assumes only what POSIX guarantees.

A file's bytes are durable as of its last fsync, and a folder's entries as of the folder's last fsync. Any part of the
later changes may have reached the disk. The model has these states after a cut:

  lost      nothing that was not synced
  entries   all entries, no bytes that were not synced (files of length 0)
  zeros     all entries, files of full length whose unsynced bytes are zero
  random    each unsynced entry exists or not; of the unsynced bytes exist all, none, zeros, or the first sectors
"""
import os

STATES = ("lost", "entries", "zeros", "random")
SECTOR = 512


class Node:
    """A file (bytes) or a folder (name to Node), with its current and its durable contents."""

    def __init__(self, is_folder):
        self.is_folder = is_folder
        self.now = {} if is_folder else b""
        self.durable = {} if is_folder else b""
        self.changes = []  # a folder's changes since its last fsync: (name, Node or None)


class Disk:
    """A tree of Nodes below a folder."""

    def __init__(self, folder):
        self.folder = str(folder)
        self.top = Node(True)

    def load(self, path, name):
        """Reads a real folder into the tree; all of it is durable."""
        self.top.now[name] = self.top.durable[name] = loaded(path)

    def find(self, path):
        """Returns the Node of a path. KeyError if there is none."""
        node = self.top
        for part in self.parts(path):
            node = node.now[part]
        return node

    def parts(self, path):
        relative = os.path.relpath(path, self.folder)
        return [] if relative == "." else relative.split("/")

    def put(self, path, node):
        """Makes, replaces or (None) removes an entry."""
        *head, last = self.parts(path)
        parent = self.find(os.path.join(self.folder, *head))
        if node is None:
            parent.now.pop(last, None)
        else:
            parent.now[last] = node
        parent.changes.append((last, node))

    def apply(self, operation):
        """Applies an operation (operations.py)."""
        kind, path, *rest = operation
        getattr(self, kind)(path, *rest)

    def create(self, path, truncated):
        try:
            if truncated:
                self.find(path).now = b""
            self.find(path)
        except KeyError:
            self.put(path, Node(False))

    def write(self, path, data, at):
        node = self.find(path)
        if at is None:
            node.now += data
        else:
            node.now = node.now[:at].ljust(at, b"\0") + data + node.now[at + len(data):]

    def truncate(self, path, size):
        node = self.find(path)
        node.now = node.now[:size].ljust(size, b"\0")

    def mkdir(self, path):
        self.put(path, Node(True))

    def unlink(self, path):
        self.put(path, None)

    def rename(self, path, to):
        node = self.find(path)
        self.put(path, None)
        self.put(to, node)

    def exchange(self, path, other):
        first, second = self.find(path), self.find(other)
        self.put(path, second)
        self.put(other, first)

    def fsync(self, path):
        node = self.find(path)
        node.durable = dict(node.now) if node.is_folder else node.now
        node.changes = []

    def after_cut(self, state, random):
        """Returns a tree of dicts and bytes that a power cut may leave."""
        return remains(self.top, state, random)


def loaded(path):
    """Returns the Node of a real file or folder."""
    node = Node(os.path.isdir(path))
    if node.is_folder:
        node.now = {name: loaded(os.path.join(path, name)) for name in os.listdir(path)}
        node.durable = dict(node.now)
    else:
        with open(path, "rb") as file:
            node.now = node.durable = file.read()
    return node


def remains(node, state, random):
    """Returns the contents of a Node after the power cut."""
    if not node.is_folder:
        return bytes_left(node, state, random)
    return {name: remains(child, state, random) for name, child in entries_left(node, state, random).items()}


def entries_left(node, state, random):
    """Returns the entries of a folder after the power cut: the durable entries, and all, none or any of the later
    changes."""
    if state == "lost":
        return node.durable
    if state != "random":
        return node.now
    entries = dict(node.durable)
    for name, child in node.changes:
        if random.random() < 0.5:
            if child is None:
                entries.pop(name, None)
            else:
                entries[name] = child
    return entries


def bytes_left(node, state, random):
    """Returns the bytes of a file after the power cut. Bytes that were synced and not overwritten since are kept."""
    now, durable = node.now, node.durable
    if state in ("lost", "entries") or now == durable:
        return durable
    kept = durable if now.startswith(durable) else b""
    zeros = kept + bytes(len(now) - len(kept))
    if state == "zeros":
        return zeros
    sectors = random.randrange((len(now) - len(kept)) // SECTOR + 1)
    return random.choice([now, durable, zeros, kept + now[len(kept):][: sectors * SECTOR]])


def write_tree(tree, path):
    """Writes a tree of dicts and bytes as real files."""
    os.makedirs(path, exist_ok=True)
    for name, child in tree.items():
        if isinstance(child, dict):
            write_tree(child, os.path.join(path, name))
        else:
            with open(os.path.join(path, name), "wb") as file:
                file.write(child)
