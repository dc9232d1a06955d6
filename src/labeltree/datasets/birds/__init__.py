"""Birds: CUB-200-2011 and NABirds, whose lists are alike."""
