"""Code that all campaigns share: the state of one campaign, and the reason why one cannot run."""
import collections
import random
import time


class Skip(Exception):
    """The reason why a campaign, or a part of it, cannot run on this machine."""


class Campaign:
    """The program, the folder, the random numbers, the counts and the faults of one campaign.

    A campaign is a module with a function run(campaign). It calls more() before each try, tried() after it, and
    fault() for what went wrong. The same seed makes the same choices; moments of kills also depend on the machine.
    """

    def __init__(self, name, program, folder, seed, count, seconds):
        self.name, self.program, self.folder, self.count = name, program, folder, count
        self.random = random.Random(f"{name} {seed}")
        self.until = time.monotonic() + seconds
        self.tries = 0
        self.counts = collections.Counter()  # number of tries of each kind
        self.measured = {}  # further results: name to value
        self.faults = []  # (what was tried, what went wrong)

    def more(self):
        """True if another try is to be made."""
        return self.tries < self.count and time.monotonic() < self.until

    def tried(self, kind):
        """Counts a try."""
        self.tries += 1
        self.counts[kind] += 1

    def fault(self, tried, *problems):
        """Records and prints problems; nothing happens if there are none."""
        for problem in problems:
            self.faults.append((str(tried), str(problem)))
            print(f"FAULT {self.name}: {tried}: {problem}", flush=True)
