#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes report.html, ratios.csv and figures/ of kept runs again, from their machine.json and runs.csv."""

import argparse
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from lib import page  # noqa: E402
from lib.measure import Failed  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="+", help="of a run, as loadtest/results/<run>")
    parser.add_argument("--baseline", metavar="VARIANT", help="divide by this server instead of the run's baseline")
    arguments = parser.parse_args()
    failed = False
    for folder in arguments.folder:
        try:
            print(page.write(folder, arguments.baseline))
        except (Failed, OSError) as why:
            failed = True
            print(f"{Path(sys.argv[0]).name}: {why}", file=sys.stderr)
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
