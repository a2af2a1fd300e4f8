package docs

import "testing"

// uncompared are the tables whose numbers no test compares, and why. Each has its command beside it.
var uncompared = map[string]string{
	`CONTRIBUTING.md: | build | MB |`: machine,
	`examples/external/gru-federated/README.md: | canary | in users | copies | rank: PyTorch, native | exposure | log-perplexity |`:                                                                                                     long,
	`examples/external/transformer/README.md: | epochs, dropout | 9 canaries | the 2 with 4 copies | 5 held back |`:                                                                                                                     long,
	`docs/papers/augenstein-2020.md: | joined in | first word, no noise | all words | first word, with noise | all words | paper, all words |`:                                                                                          long,
	`docs/papers/augenstein-2020.md: | fault, users | selected | at accuracy | inverted, by mean intensity (95%) | by the mean image | mean intensity | classifier score | Fréchet distance | epsilon proved (papers' convention) |`:    long,
	`docs/papers/augenstein-2020.md: | rounds | inverted, by mean intensity | classifier score (real: 9.65) | Fréchet distance |`:                                                                                                       long,
	`docs/papers/augenstein-2020.md: | fault, images | users with five | images | inverted, by mean intensity (95%) | by the mean image | mean intensity | classifier score | Fréchet distance | epsilon proved (papers' convention) |`: long,
	`docs/papers/augenstein-2020.md: | users with five images | this run | of all | the paper | of all |`:                                                                                                                               long,
	`docs/papers/augenstein-2020.md: | selected by | threshold, nats a token | sentences | users | of them after 1920 | epsilon proved (papers' convention) |`:                                                                          long,
	`docs/papers/carlini-2019.md: | copies | least validation loss | at epoch | fitted exposure | exact rank of 10^9 | nodes expanded | samples for an even chance | greedy |`:                                                          long,
	`docs/papers/carlini-2019.md: | copies | rank of 100,000 | sampled | fitted | search | samples for an even chance | greedy |`:                                                                                                       long,
	`docs/papers/carlini-2019.md: | insertions | held back | 1 | 2 | 4 | 8 |`:                                                                                                                                                           long,
	`docs/papers/carlini-2019.md: | epoch | 6 | 12 | 18 | 24 | 30 | 36 | 42 | 54 | 66 | 78 | 90 |`:                                                                                                                                      notPrinted,
	`docs/deanonymization.md: | | writers | IID control | chance |`:                                                                                                                                                                     long,
	"docs/method/privacy-audits.md: | control | z | `epsilon_proved` | Steinke et al. | trade-off curve | estimate, final | estimate, all rounds |":                                                                                     long,
	"docs/method/privacy-audits.md: | sampling | claimed z | `epsilon_proved` | at least, by Steinke et al. | by trade-off curve | p-value of the claim |":                                                                              long,
	`docs/method/membership.md: | | | 1352 users without canaries: AUC % | TPR % at 1% FPR | 8 sharers: AUC % | TPR % at 1% FPR |`:                                                                                                      long,
	`docs/operations.md: | embedding, units, vocabulary | parameters | a slot in training | in an audit with 2,000,000 references | one-slot worker by default |`:                                                                       machine,
	`docs/operations.md: | table | tasks | to train | through the store | 2 cores | 64 cores | 256 | 1,000 |`:                                                                                                                           machine,
	`docs/papers/orekondy-2018.md: | posts, measure | FedAvg | SGD | 10-NN | constant | chance |`:                                                                                                                                       notShipped,
	`docs/papers/orekondy-2018.md: | | seed | MLP | kNN | cosine | control: MLP, kNN, cosine |`:                                                                                                                                         long,
	`docs/privacy.md: | noise | on the last model | largest on any model |`:                                                                                                                                                             notPrinted,
	`docs/papers/thakkar-2020.md: | | rate: loss in nats, all targets (recall@1 %, ordinary words) | taken | perplexity there, ordinary words |`:                                                                                        long,
	`docs/papers/thakkar-2020.md: | | exposure, inserted (without a copy) | perplexity more than clipping alone |`:                                                                                                                      long,
}

// Why no test compares a table.
const (
	machine    = "it has what was measured on some machine"
	long       = "its command takes more than two minutes of a processor, mostly several times as many"
	notShipped = "its data are not shipped"
	notPrinted = "no command prints all of it in a form for programs"
)

// mostUncompared only falls.
const mostUncompared = 24

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
	if len(uncompared) > mostUncompared {
		t.Errorf("%d tables are listed, more than the %d that were", len(uncompared), mostUncompared)
	}
	t.Logf("%d tables are compared with their sources, %d are not", compared, len(uncompared))
}
