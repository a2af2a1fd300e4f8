package devices

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"coalmine/internal/readable"
	"coalmine/internal/seeds"
)

// Owned counts the examples and groups of a user to divide.
type Owned struct {
	// Examples is the number of the user's examples, at least 0.
	Examples int
	// Groups holds the number of examples in each group of the user, at least 1, in the order of
	// population.GroupsBlob; nil unless the prior is Groups.
	Groups []int
}

// reserved returns the number of a user's examples that are not private.
func (p *SplitParams) reserved(user int, o Owned) int {
	if p.Prior == Groups {
		_, _, examples := p.reservedGroups(user, o)
		return examples
	}
	return rounded(p.Share, o.Examples)
}

// reservedGroups draws the groups of a user that are not private: the first kept of order, and
// their number of examples. kept is the count with the number of examples nearest to the share of
// the user's, the smaller in a tie; at least one group is kept, and one left. The user has at least
// two groups.
func (p *SplitParams) reservedGroups(user int, o Owned) (order []int, kept, examples int) {
	order = seeds.Stream(p.Seed, seeds.PriorExamples, uint64(user)).Perm(len(o.Groups))
	wanted, nearest, sum := float64(p.Share*float64(o.Examples)), math.Inf(1), 0
	for i, g := range order[:len(order)-1] {
		sum += o.Groups[g]
		if away := math.Abs(float64(sum) - wanted); away < nearest {
			nearest, kept, examples = away, i+1, sum
		}
	}
	return order, kept, examples
}

// lacks reports whether a user cannot be divided.
func (p *SplitParams) lacks(user int, o Owned) bool {
	if p.Prior != Groups {
		return o.Examples < p.Needed()
	}
	return len(o.Groups) < 2 || p.reserved(user, o) < p.Count
}

// byGroup returns the numbers of a user's private and prior examples, given the group of each.
// Whole groups are private; from the other groups the prior takes Count examples, group after group
// in the order drawn.
func (p *SplitParams) byGroup(user int, groups []uint32) (private, prior []int) {
	numbers, members := gather(groups)
	order, kept, _ := p.reservedGroups(user, Owned{len(groups), groupSizes(groups)})
	for i, at := range order {
		if examples := members[numbers[at]]; i < kept {
			prior = append(prior, examples...)
		} else {
			private = append(private, examples...)
		}
	}
	if p.Count > 0 {
		prior = prior[:p.Count]
	}
	slices.Sort(prior)
	slices.Sort(private)
	return private, prior
}

// gather returns the groups, ascending, and the examples of each.
func gather(groups []uint32) (numbers []uint32, members map[uint32][]int) {
	members = map[uint32][]int{}
	for i, g := range groups {
		if members[g] == nil {
			numbers = append(numbers, g)
		}
		members[g] = append(members[g], i)
	}
	slices.Sort(numbers)
	return numbers, members
}

// groupSizes returns the numbers of examples of the groups, in the order of groups.
func groupSizes(groups []uint32) (sizes []int) {
	numbers, members := gather(groups)
	for _, g := range numbers {
		sizes = append(sizes, len(members[g]))
	}
	return sizes
}

// TooFewError lists the users with too few examples, or too few groups, to be divided.
type TooFewError struct {
	// Users lists users by number, with their examples; Of is the number of all users.
	Users []int
	Owned []Owned
	Of    int
	// Needed examples of each user, for a prior of Size; 0 if a user needs two groups, one
	// of them of Size examples.
	Needed int
	Size   string
	// Name returns a user's name for display; nil displays numbers.
	Name func(user int) string
}

func (e *TooFewError) add(user int, o Owned) {
	e.Users, e.Owned = append(e.Users, user), append(e.Owned, o)
}

// namedUsers is the number of users that a message names.
const namedUsers = 5

func (e *TooFewError) Error() string {
	if e.Needed == 0 {
		return fmt.Sprintf("%d of %d users have too few groups of examples to be divided with data.devices.prior: groups and data.devices.size: %s: %s; a user needs two groups (albums, documents: the field \"group\" of each line), and the groups that are drawn for the prior need that number of examples: lower the size, or leave such users out by data.devices.at_least_groups: 2 and more",
			len(e.Users), e.Of, e.Size, e.named(Owned.inGroups))
	}
	return fmt.Sprintf("%d of %d users have too few examples to be divided with data.devices.size: %s, which takes %d: %s; lower the size, or leave such users out by data.devices.at_least: %d",
		len(e.Users), e.Of, e.Size, e.Needed, e.named(Owned.inAll), e.Needed)
}

// named lists the first users with their examples.
func (e *TooFewError) named(has func(Owned) string) string {
	var named []string
	for i, user := range e.Users[:min(namedUsers, len(e.Users))] {
		name := fmt.Sprintf("user %d", user)
		if e.Name != nil {
			name = e.Name(user)
		}
		named = append(named, name+" has "+has(e.Owned[i]))
	}
	if more := len(e.Users) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(named, ", ")
}

func (o Owned) inAll() string { return fmt.Sprint(o.Examples) }

func (o Owned) inGroups() string {
	if len(o.Groups) == 1 {
		return fmt.Sprintf("1 group of %d", o.Examples)
	}
	return fmt.Sprintf("%s of %d", readable.Count(len(o.Groups), "group"), o.Examples)
}
