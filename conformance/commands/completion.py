"""``brokerproof completion bash``: a script that makes a shell complete commands and options.

Options are asked of each command's ``--help`` when they are wanted, so the script never gets stale.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from brokerproof.conformance.experiment.exits import OK

_BASH = r"""_brokerproof() {
  local word="${COMP_WORDS[COMP_CWORD]}" words
  if [ "$COMP_CWORD" -eq 1 ]; then
    words=$(brokerproof --help | sed -n 's/^  \([a-z]*\)  *[a-zA-Z].*/\1/p')
  elif [ "${word#-}" != "$word" ]; then
    words=$(brokerproof "${COMP_WORDS[1]}" --help | grep -o -e '--[a-z][a-z-]*')
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _brokerproof brokerproof
"""
SCRIPTS = {
    "bash": _BASH,
    "zsh": "autoload -U +X bashcompinit && bashcompinit\n" + _BASH,
    "fish": "complete -c brokerproof -n __fish_use_subcommand -f -a "
    "\"(brokerproof --help | string match -rg '^  ([a-z]+)  +\\w')\"\n"
    "complete -c brokerproof -n 'not __fish_use_subcommand' -a "
    "\"(brokerproof (commandline -opc)[2] --help | string match -arg '(--[a-z][a-z-]*)')\"\n",
}


def main(argv: Sequence[str]) -> int:
    """Print the script of a shell: ``eval "$(brokerproof completion bash)"``."""
    parser = argparse.ArgumentParser(prog="brokerproof completion", description=__doc__)
    parser.add_argument("shell", choices=list(SCRIPTS))
    sys.stdout.write(SCRIPTS[parser.parse_args(argv).shell])
    return OK
