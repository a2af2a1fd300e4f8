package main

import (
	"os"
	"path/filepath"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
)

// membershipFile has both partitions, with canaries and reference models.
const membershipFile = `
name: membership
data: {source: %q, vocabulary: {size: 60}, users: {words: 30}, held_out_users: {fraction: 40%%}}
canaries: {words: 3, per_configuration: 3, user_probability: 1/10, example_probability: 50%%}
model: {embedding: 4, units: 6}
training: {rounds: 20, cohort: 10, client: {learning_rate: 4}}
audit: {membership: {reference_models: 4}}
grid: {axes: {data.partition: [by-user, iid]}}
`

// Every attack on a real run, by SciPy and scikit-learn from the losses of its users, and who
// trained which reference model from the streams.
func TestMembershipIsRecomputedElsewhere(t *testing.T) {
	t.Parallel()
	interpreter := testserver.Python(t, "sklearn, scipy")
	home := smallRun(t, membershipFile)
	dir := filepath.Dir(home)
	for _, cell := range []string{"c01", "c02"} {
		facts := filepath.Join(dir, cell)
		must.Do(t, os.Mkdir(facts, 0o755))
		for name, args := range map[string][]string{
			"nodes.json":   {"show", "latest", cell, "--nodes", "--json"},
			"results.json": {"results", "latest", "--format", "json"},
		} {
			writeFile(t, filepath.Join(facts, name), outputOf(t, home, args...))
		}
		runPython(t, dir, interpreter, "-m", "check_membership", facts, filepath.Join(home, "store"), cell)
	}
}
