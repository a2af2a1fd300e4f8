package datasets

import (
	"context"
	"fmt"

	"coalmine/internal/registry"
)

// Partitioning names a way to divide the balanced users' data among the users of the population.
type Partitioning string

// Ways to partition.
const (
	ByUser Partitioning = "by-user"
	IID    Partitioning = "iid"
)

// partitions are all ways to partition.
var partitions = registry.New("partition", func(s PartitionScheme) Partitioning { return s.Partition }, byUser, iid)

// PartitionScheme describes a way to partition.
type PartitionScheme struct {
	Partition Partitioning
	// Summary describes the partition in one line; Source cites its origin.
	Summary, Source string
	// Unit names the unit that a guarantee over the population's users protects; WholeUnit is its
	// name if users are unchanged from the data (users.words 0).
	Unit, WholeUnit string
	// Rewrites reports that the node writes the examples to new shards. Otherwise its population is
	// a view of the training stream.
	Rewrites bool
	// Refills reports that users of a fixed size are refilled; their number is then known only
	// approximately before the node has run. Users that keep their sizes keep their number.
	Refills bool
	// UserOrder reports that central training processes the records user after user; otherwise it
	// shuffles them.
	UserOrder bool
	// Params are the node's parameters: only the fields of the recipe that the scheme depends on,
	// so that cells that differ in other fields share the node.
	Params func(Recipe) PartitionParams

	// check returns an error for parameters that Params does not make.
	check func(PartitionParams) error
	// run writes the population.
	run func(context.Context, *partitioner) error
}

// FindPartition returns the entry of a way to partition.
func FindPartition(p Partitioning) (PartitionScheme, error) { return partitions.Find(p) }

// Partitions lists all ways to partition.
func Partitions() []PartitionScheme { return partitions.Entries() }

// Choices lists the ways to partition for an experiment file.
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
