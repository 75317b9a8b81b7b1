"""From result files to tables, figures, the verdicts on the paper's claims, and one HTML page."""
