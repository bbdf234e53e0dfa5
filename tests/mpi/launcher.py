"""The command line of mpirun for tests, and a check that it works on this machine."""
import os, shutil, subprocess, sys

# Machines of CI have fewer cores than ranks, and root is their only user; nothing is started on others.
MPIRUN = ["mpirun", "--oversubscribe", "--allow-run-as-root", "--bind-to", "none", "--mca", "plm", "isolated"]
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive")


def require(binary):
    """Exits with 4 (skipped) and the reason if ranks cannot be started."""
    if not os.path.exists(os.path.join(os.path.dirname(binary), "libonnx_amp_mpi.so")):
        skip("libonnx_amp_mpi.so was not built (libopenmpi-dev)")
    if not shutil.which("mpirun"):
        skip("there is no mpirun (openmpi-bin)")
    try:
        r = subprocess.run(MPIRUN + ["-np", "2", "true"], capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        skip("mpirun does not start two processes within a minute here")
    if r.returncode:
        skip(f"mpirun starts no processes here: {r.stderr.strip()[-400:]}")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(4)
