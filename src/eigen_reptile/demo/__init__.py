"""The page in the browser on which one draws classes, mislabels examples, and sees which method survives."""
