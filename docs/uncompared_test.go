package docs

import "testing"

// uncompared are the tables whose numbers no test compares, and why: the processor time of their commands, by coalmine
// plan or as measured. Each has its command beside it.
var uncompared = map[string]string{
	`docs/papers/augenstein-2020.md: |fault, images|users with five|images|inverted, by mean intensity (95%)|by the mean image|mean intensity|classifier score|Fréchet distance|`: "24 minutes",
}

// maxUncompared only falls.
const maxUncompared = 1

func TestTablesThatNoTestComparesAreListed(t *testing.T) {
	t.Parallel()
	compared, needed := 0, map[string]bool{}
	for _, table := range allTables(t) {
		if kept.MatchString(table.marker) || elsewhere.MatchString(table.marker) {
			compared++
			continue
		}
		name := table.page + ": " + table.head
		if uncompared[name] == "" {
			t.Errorf("compare the numbers of this table, as the comment of kept says, or list it with a reason:\n%q", name)
		}
		needed[name] = true
	}
	for name := range uncompared {
		if !needed[name] {
			t.Errorf("take %q from the list: no such table is left, or it is compared", name)
		}
	}
	if len(uncompared) > maxUncompared {
		t.Errorf("%d tables are listed, more than the %d that were", len(uncompared), maxUncompared)
	}
	t.Logf("%d tables are compared with their sources, %d are not", compared, len(uncompared))
}
