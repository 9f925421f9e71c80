"""python -m neon file.yaml"""

import sys

from neon.cli import main

sys.exit(main())
