package datasets

import (
	"context"
	"fmt"

	"coalmine/internal/registry"
)

// Partitioning names how the balanced users' data are divided among the users of
// the population.
type Partitioning string

// Ways to partition.
const (
	ByUser Partitioning = "by-user"
	IID    Partitioning = "iid"
)

// partitions are all ways to partition.
var partitions = registry.New("partition", func(s PartitionScheme) Partitioning { return s.Partition }, byUser, iid)

// PartitionScheme describes a way to partition: all that the rest of the project
// knows of it.
type PartitionScheme struct {
	Partition Partitioning
	// Summary describes the partition in one line; Source cites its origin.
	Summary, Source string
	// Unit names the unit that a guarantee over the population's users protects; WholeUnit
	// where users stay as they are in the data (users.words 0).
	Unit, WholeUnit string
	// Rewrites says that the node writes the examples anew, in shards of its own.
	// Else its population is a view of the training stream.
	Rewrites bool
	// Refills is set if users of one size are filled anew; their number is then known only
	// approximately before the node has run. Users that keep their sizes keep their number.
	Refills bool
	// UserOrder says that central training goes through the records user after
	// user; else they are shuffled.
	UserOrder bool
	// Params are the node's parameters: the fields of the recipe that the scheme
	// depends on, and no others, so that cells that differ elsewhere share the
	// node.
	Params func(Recipe) PartitionParams

	// check refuses parameters that Params does not make.
	check func(PartitionParams) error
	// run writes the population.
	run func(context.Context, *partitioner) error
}

// FindPartition returns the entry of a way to partition.
func FindPartition(p Partitioning) (PartitionScheme, error) { return partitions.Find(p) }

// Partitions lists all ways to partition.
func Partitions() []PartitionScheme { return partitions.Entries() }

// Choices lists the ways to partition as words of an experiment file.
func (Partitioning) Choices() []string { return partitions.Words() }

var byUser = PartitionScheme{
	Partition: ByUser,
	Summary:   "the balanced users as they are",
	Source:    "Thakkar et al. 2020, section 4.1",
	Unit:      "balanced user",
	WholeUnit: "user",
	UserOrder: true,
	Params:    func(Recipe) PartitionParams { return PartitionParams{Partition: ByUser} },
	check: func(p PartitionParams) error {
		if p.Words != 0 || p.Seed != 0 {
			return fmt.Errorf("a %s partition takes neither words nor seed; got %d and %d", ByUser, p.Words, p.Seed)
		}
		return nil
	},
	run: func(ctx context.Context, p *partitioner) error { return p.byUser(ctx) },
}

var iid = PartitionScheme{
	Partition: IID,
	Summary:   "all examples, canaries among them, shuffled, and synthetic users filled from them one after another",
	Source:    "Thakkar et al. 2020, sections 4.1 and 4.3",
	Unit:      "synthetic user",
	WholeUnit: "synthetic user",
	Rewrites:  true,
	Refills:   true,
	Params: func(r Recipe) PartitionParams {
		return PartitionParams{Partition: IID, Words: r.Words, Seed: r.Seed}
	},
	check: func(p PartitionParams) error {
		if p.Words < 0 {
			return fmt.Errorf("users.words is %d; expected at least 1, or 0 for users of the sizes that they have", p.Words)
		}
		return nil
	},
	run: func(ctx context.Context, p *partitioner) error { return p.iid(ctx) },
}
