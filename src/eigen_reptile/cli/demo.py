"""The `demo` command: the page in the browser."""

import signal
import threading
import webbrowser
from collections.abc import Sequence

from eigen_reptile.cli.arguments import parse
from eigen_reptile.cli.demo_options import DemoOptions
from eigen_reptile.errors import ConfigError
from eigen_reptile.runtime.files import expanded
from eigen_reptile.runtime.interruption import Interrupted

INSTALL = "pip install 'eigen-reptile[demo]'"


def demo_command(args: Sequence[str]) -> None:
    options = parse(DemoOptions, args, "demo")
    try:
        from eigen_reptile.demo.server import serve
    except ImportError as error:
        raise ConfigError(f"the package {error.name} is not installed: {INSTALL}") from error
    runs = None if options.runs is None else expanded(options.runs)
    try:
        serve(options.host, options.port, runs, lambda address: _announce(address, options.browser))
    except KeyboardInterrupt as stop:  # which is how it is meant to end
        if isinstance(stop, Interrupted) and stop.number != signal.SIGINT:
            raise


def _announce(address: str, browser: bool) -> None:
    print(f"the page is at {address}\npress Ctrl-C here to stop it", flush=True)
    if browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
