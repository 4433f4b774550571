"""The Debian packages whose programs the tests run. `python -m tests.servers` installs what is not there."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

from filelock import FileLock

PROGRAMS = {
    "mariadbd": "mariadb-server-core",
    "mariadb-install-db": "mariadb-server-core",
    "mariadb": "mariadb-client-core",
    "postgres": "postgresql",
    "initdb": "postgresql",
    "psql": "postgresql",
    "redis-server": "redis-server",
    "prometheus": "prometheus",
    "promtool": "prometheus",
}
"""Where a package comes with a service there is a smaller one without, or the service is kept from starting: see `_INSTALL`."""

_ATTEMPTS = 3
_ATTEMPT_S = 240.0
_LOCK_S = 800.0

# Packages start their services as they are installed, unless a policy forbids it: ours does, and goes afterwards.
_INSTALL = """\
set -e
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  printf '#!/bin/sh\\nexit 101\\n' > $policy; chmod 755 $policy
  trap 'rm -f $policy' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -q -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 update
apt-get -q -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 install -y --no-install-recommends "$@"
"""


class Missing(Exception):
    """A program is not here and could not be installed. The text names the package."""


@cache
def program(name: str) -> str:
    """The path of one of `PROGRAMS`, whose package is installed first where it lacks. Missing, in one line, where that fails."""
    found = _find(name)
    if found is None:
        install()
        found = _find(name)
    if found is None:
        raise Missing(f"{name} is not installed, and could not be: apt-get install {PROGRAMS[name]}")
    return found


def lacking() -> list[str]:
    return sorted({package for name, package in PROGRAMS.items() if _find(name) is None})


def install() -> None:
    """All that lacks, in one go, once per machine however many ask. Missing where it cannot be done."""
    with FileLock(Path(tempfile.gettempdir()) / f"strata-test-packages-{os.getuid()}.lock", timeout=_LOCK_S):
        wanted = lacking()  # under the lock: another run may have done it meanwhile
        if not wanted:
            return
        advice = f"these tests need servers: apt-get install {' '.join(wanted)}"
        become = _root()
        if become is None or shutil.which("apt-get") is None:
            raise Missing(f"{advice} (cannot be done here: it takes Debian's apt-get and root)")
        for attempt in range(1, _ATTEMPTS + 1):
            if _run([*become, "sh", "-c", _INSTALL, "sh", *wanted]):
                return
            time.sleep(5.0 * attempt)
        raise Missing(f"{advice} (apt-get failed here {_ATTEMPTS} times)")


def _run(command: list[str]) -> bool:
    """True where it worked. Its output is shown where not."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_ATTEMPT_S
        )
    except subprocess.TimeoutExpired:
        print(f"apt-get took longer than {_ATTEMPT_S:.0f} s", file=sys.stderr)
        return False
    if done.returncode != 0:
        print(done.stdout.decode(errors="replace")[-2000:], file=sys.stderr)
    return done.returncode == 0


def _root() -> list[str] | None:
    """What stands before a command that needs root; None where there is no way to it."""
    if os.getuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if sudo and subprocess.run([sudo, "-n", "true"], capture_output=True, timeout=20).returncode == 0:
        return [sudo, "-n"]
    return None


def _find(name: str) -> str | None:
    if found := shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"):
        return found
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: path.parts[4].zfill(3))
    return str(versions[-1]) if versions else None
