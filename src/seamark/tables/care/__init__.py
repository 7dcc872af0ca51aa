"""What keeps tables in order: folding, collecting what nobody needs, and setting right what does not agree."""
