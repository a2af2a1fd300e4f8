package plan

// Limits of a plan. A plan within them takes seconds to make, and about 1 GB of
// memory together with the coordinator's state for it.
const (
	// MaxNodes is the most standing nodes of all cells together, those that cells share
	// counted for each.
	MaxNodes = 1_000_000
	// MaxSteps is the most steps of all chains together: the key of a step is a hash of
	// the one before.
	MaxSteps = 20_000_000
)
