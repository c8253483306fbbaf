"""Write ``report.html``, one self-contained page per run with figures and without scripts."""
