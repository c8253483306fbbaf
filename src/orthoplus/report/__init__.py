"""``report.html``: one self-contained page of a run. A template, Matplotlib figures, no script."""
