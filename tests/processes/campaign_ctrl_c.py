"""Send Ctrl-C to a program 0 to 120 ms after its start, three times each, and count how it ends.

python tests/processes/campaign_ctrl_c.py labeltree data list
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter

STEPS_MS, TIMES = range(121), 3


def phase(said: str, script: str) -> str:
    """Where the program was when it got the signal, from what it has printed."""
    if not said:
        return "no word"
    if "Traceback" not in said:
        return "one sentence" if said == "labeltree: interrupted\n" else f"other words: {said.strip()[:60]}"
    files = re.findall(r'File "([^"]+)", line (\d+)', said)
    own = [f"{os.path.basename(file)}:{line}" for file, line in files if file.endswith(".py")]
    if files and os.path.basename(files[0][0]) == script:
        inside = any("labeltree" in file and file.endswith(".py") for file, _ in files[1:])
        return f"traceback in {own[-1]}" if inside else f"traceback in the script, line {files[0][1]}"
    return "traceback in the start of Python"


def main(words: list[str]) -> None:
    """Print the counts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
    counts: Counter[tuple[str, int]] = Counter()
    for step in STEPS_MS:
        for _ in range(TIMES):
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            time.sleep(step / 1000)
            process.send_signal(signal.SIGINT)
            said = process.communicate()[1]
            counts[phase(said, os.path.basename(words[0])), process.returncode] += 1
    for (where, code), count in sorted(counts.items()):
        print(f"{count:4d}  {where}, exit code {code}")


if __name__ == "__main__":
    main(sys.argv[1:])
