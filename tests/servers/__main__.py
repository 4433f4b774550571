"""Install what the tests' servers need and is not there: once, before the tests, whose own time is bounded."""

import os
import sys

from tests.servers.packages import Missing, install, lacking

if names := lacking():
    print(f"Installing servers for the tests: {' '.join(names)} ...", flush=True)
    try:
        install()
    except Missing as missing:
        if os.environ.get("CI"):
            sys.exit(str(missing))
        print(f"{missing}; tests that need them are skipped", flush=True)
