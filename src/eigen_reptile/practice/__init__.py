"""For people with a folder of images and a few labels, some of them wrong: a classifier and an audit."""
