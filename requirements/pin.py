"""Prints the wheels of a folder as requirements with hashes: `python pin.py FOLDER > sb3.txt`.

For packages whose own requirements are not resolved, because one of them is installed apart.
"""

import hashlib
import sys
from pathlib import Path

from packaging.utils import parse_wheel_filename

print("#\n# This file is made by: make lock\n# It is installed with --no-deps, on top of torch.\n#")
for wheel in sorted(Path(sys.argv[1]).glob("*.whl")):
    name, version, *_ = parse_wheel_filename(wheel.name)
    print(f"{name}=={version} \\\n    --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}")
