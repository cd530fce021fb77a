"""A server of the standard library that behaves, or misbehaves, as its flags say."""

from __future__ import annotations

import argparse
import http.server
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--dies", type=int, default=None, metavar="CODE", help="print a token and exit")
parser.add_argument("--never-binds", action="store_true")
parser.add_argument(
    "--unhealthy",
    nargs="?",
    type=Path,
    const=Path("no such file"),
    metavar="FILE",
    help="answer 503 until FILE is there",
)
parser.add_argument("--deaf", action="store_true", help="ignore SIGTERM")
parser.add_argument("--grandchild", action="store_true", help="a child of this process owns the port")
parser.add_argument(
    "--lingers",
    type=float,
    default=None,
    metavar="S",
    help="take S seconds to end, and leave files that tell",
)
parser.add_argument("--pids", type=Path, default=None, help="append the pids of this server to a file")
parser.add_argument("--print-env", default=None, metavar="NAME")
parser.add_argument("--chatty", action="store_true", help="print more than a pipe holds")
parser.add_argument("--exits-after-health", action="store_true")
parser.add_argument("--crashes", type=int, default=None, metavar="SIGNAL", help="end by this signal at start")
parser.add_argument("--daemon", action="store_true", help="leave the serving to a process in the background")
parser.add_argument("--mute", type=int, default=0, metavar="N", help="never answer the first N requests")
parser.add_argument("--drips", action="store_true", help="answer a byte at a time, without an end")
parser.add_argument("--host", default="127.0.0.1")
parser.add_argument(
    "--slow-start", type=float, default=0.0, metavar="S", help="load for so long before binding"
)
parser.add_argument(
    "--stray", action="store_true", help="leave a process in a session of its own, its parent gone"
)
parser.add_argument("--quiet-after", type=int, default=None, metavar="N", help="log N lines, then never bind")
parser.add_argument(
    "--binds", action=argparse.BooleanOptionalAction, default=True, help="or only wait, beside another"
)
args = parser.parse_args()


def far() -> None:
    """Tell a test that waits for it how far this is."""
    if path := os.environ.get("STUB_FAR"):
        Path(path).touch()


waits_for_a_request = args.unhealthy or args.mute or args.drips

if args.pids:
    with args.pids.open("a") as pids:
        pids.write(f"{os.getpid()}\n")
if args.print_env:
    print(f"{args.print_env}={os.environ.get(args.print_env)!r}")
if args.dies is not None:
    print("loading with HF_TOKEN=hf_abcdefghij0123456789")
    print("\x1b[31mno weights\x1b[0m here", file=sys.stderr)
    sys.exit(args.dies)
if args.crashes is not None:
    os.kill(os.getpid(), args.crashes)
if args.daemon:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(5)"], start_new_session=True)
    sys.exit(0)
if args.stray:
    deaf = "signal.signal(15, signal.SIG_IGN); " if args.deaf else ""
    code = f"import signal, time; {deaf}print('up', flush=True); time.sleep(600)"
    middle = (
        "import subprocess, sys\n"
        f"left = subprocess.Popen([sys.executable, '-c', {code!r}], start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)\n"
        "left.stdout.readline()\n"
        "print(left.pid)\n"
        "import os; os._exit(0)"
    )
    left = subprocess.run([sys.executable, "-c", middle], capture_output=True, text=True, check=True)
    if args.pids:
        with args.pids.open("a") as pids:
            pids.write(left.stdout)
if args.deaf:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if args.lingers is not None:

    def linger(*_: object) -> None:
        Path("lingering").touch()
        time.sleep(args.lingers)
        Path("lingered").touch()
        os._exit(0)

    signal.signal(signal.SIGTERM, linger)
if args.quiet_after is not None:
    for number in range(args.quiet_after):
        print("loading shard", number, flush=True)
        time.sleep(0.2)
    far()
if args.never_binds or args.quiet_after is not None or not args.binds:
    time.sleep(600)
if args.chatty:
    print("chatter " * 50_000)
if args.grandchild:
    argv = [word for word in sys.argv if word != "--grandchild"]
    child = subprocess.Popen([sys.executable, *argv])
    sys.exit(child.wait())

time.sleep(args.slow_start)

requests: list[str] = []


class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6 if ":" in args.host else socket.AF_INET
    daemon_threads = True


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        requests.append(self.path)
        if len(requests) <= args.mute:
            far()
            time.sleep(600)
        if args.drips:
            far()
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
            while True:
                self.wfile.write(b"a")
                time.sleep(0.05)
        self.send_response(503 if args.unhealthy and not args.unhealthy.exists() else 200)
        self.end_headers()
        self.wfile.write(str(os.getpid()).encode())
        if args.unhealthy:
            far()
        if args.exits_after_health:
            os._exit(7)

    def log_message(self, *_: object) -> None:
        pass


server = Server((args.host, args.port), Handler)
if not waits_for_a_request:
    far()
server.serve_forever()
