package models

// External is the kind of a model of an external program, which trains it and computes the
// probabilities of texts. No Config has it.
const External Kind = "external"
