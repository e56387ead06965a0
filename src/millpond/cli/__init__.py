import sys

from millpond import settings
from millpond.errors import MillpondError
from millpond.web.server import serve


def main() -> None:
    try:
        serve(settings.load())
    except MillpondError as e:
        sys.exit(str(e))
