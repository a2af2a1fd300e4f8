package models

// External is the kind of a model that an external program trains and scores. No Config has it.
const External Kind = "external"
