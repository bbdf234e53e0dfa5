"""A small disk: a tmpfs that is mounted in the campaign's folder."""
import contextlib
import shutil
import subprocess

from campaign import Skip


class SmallDisk:
    """A tmpfs at the folder `disk`, unmounted at the end. Raises Skip if the process may not mount."""

    def __init__(self, folder, options):
        self.path = folder / "disk"
        self.path.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.path)]
        if not shutil.which("mount") or subprocess.run(command, capture_output=True, check=False).returncode:
            raise Skip("no right to mount a small disk")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", str(self.path)], check=False)

    def enlarge(self):
        """Frees disk space."""
        subprocess.run(["mount", "-o", "remount,size=64m,nr_inodes=1000", str(self.path)], check=True)

    def fill(self):
        """Fills the disk with a file, while others may write, too."""
        with (self.path / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 20))

    def empty(self):
        """Removes the file that fill() wrote."""
        (self.path / "filler").unlink(missing_ok=True)
