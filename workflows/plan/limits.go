package plan

// Limits of a plan. A plan within them takes seconds to make, and about 1 GB of
// memory together with the coordinator's state for it.
const (
	// MaxNodes is the maximum sum of the cells' standing nodes; a shared node counts
	// for each cell.
	MaxNodes = 1_000_000
	// MaxSteps is the maximum sum of the chains' steps: the key of a step is a hash of
	// the key before it.
	MaxSteps = 20_000_000
)
