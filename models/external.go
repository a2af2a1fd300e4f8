package models

// External is the kind of a model that is not ours: code of somebody else trains it, and says
// how probable texts are. No Config has it.
const External Kind = "external"
