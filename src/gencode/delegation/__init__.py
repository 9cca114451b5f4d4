"""The subagent system: who is sent, who watches, who hands the result back."""
