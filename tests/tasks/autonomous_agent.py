"""An agent that may edit without approval."""

AUTONOMOUS = {"permission_mode": "dontAsk", "max_depth": 2}
NOTE = "\n[Files that you had read have changed: `a.txt` (by {by}). Read them again before you rely on them.]"
