package experiment

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"

	"coalmine/internal/numbers"
	"coalmine/internal/readable"
	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/devices"
	"coalmine/tasks/reports"
	"coalmine/tasks/selection"
)

// Facts describe the data of one cell.
type Facts struct {
	// Files are the digests of the source's files, in reading order.
	Files []storage.Digest
	// FileSplits are the splits of these files, if the experiment reads splits and the files name them.
	FileSplits []string
	// Rules are the rules of reading that the sources need, without those of Prepared. They are 0 if all
	// versions read the sources alike.
	Rules text.Rules
	// Users and Examples count the balanced training population before canaries are inserted, without held-out users.
	Users, Examples int
	// HeldOutUsers is the number of balanced users that never train.
	HeldOutUsers int
	// DistinctWords is the number of distinct words in the training part, before users are balanced. The
	// vocabulary is chosen from them.
	DistinctWords int
	// TestExamples is the number of examples in the test part.
	TestExamples int
	// Devices describes the division of users for data.devices; Users and Examples then count devices.
	// DevicesError is the error if users cannot be divided.
	Devices      devices.Summary
	DevicesError error
	// Second contains the digests of the files of Data.SecondSources.
	Second SecondFiles
	// OfAudits contains the digests of the files of Experiment.AuditSources, by path.
	OfAudits map[string][]storage.Digest
	// Code and Scorer are the digests of training.code as packed for the trainer and the scorer. They are
	// zero without code.
	Code, Scorer storage.Digest
	// MissingWords are the words of Experiment.NamedWords that are not in the vocabulary.
	MissingWords []string
	// Phrases counts the distinct matches in the source for each phrase of Experiment.Phrases, before
	// canaries are inserted. No count exceeds datasets.MaxPhrases.
	Phrases []int
	// Secrets is the number of distinct natural secrets in the source, an upper bound for its training text.
	// It is nil if unknown.
	Secrets *int
	// Sizes maps numbers of examples to the number of clients that have them, in federated training.
	Sizes map[int]int
	// Similar counts the users of the source that have similar names.
	Similar datasets.SimilarUsers
	// Prepared are the facts of Experiment.Sources, in order.
	Prepared []Facts
	// Tokens is the number of tokens of the tokenizer, or 0 without one.
	Tokens int
	// Unlabelled is the number of images without a label in the source.
	Unlabelled int
	// Key is the fingerprint of the current secret key, or "" without one.
	Key string
}

// of returns the facts that audits use.
func (f *Facts) of(c *Cell) *audits.Data {
	return &audits.Data{
		Carriers: c.Experiment.Canaries.carriers(f.Users, f.Examples),
		Source:   c.Experiment.Data.Source, Users: f.Users, Joining: c.Experiment.joining(), Examples: f.Examples, TestExamples: f.TestExamples, HeldOutUsers: f.HeldOutUsers,
		Seen: f.Devices.Seen, Unseen: f.Devices.Unseen, HeldOut: f.Devices.HeldOut,
		Secrets: f.Secrets,
	}
}

// Resolve checks each cell against its data, facts[i] for cell i, and sets the values that depend on the
// data: the rounds for epochs or within a privacy budget, the separation and mechanism of separated
// cohorts, and digests of sources and code.
//
// If there are mistakes, Resolve returns them in one *Error and leaves the spec unchanged. Any other error
// concerns the sizes of a pretrained model or words of its tokenizer; the spec is then incomplete.
//
// One epoch is users / cohort rounds of fedavg, or examples / cohort steps of sgd. The product with the
// number of epochs is rounded up.
func (s *Spec) Resolve(facts []Facts) error {
	var ps problems
	rounds, settled := make([]int, len(s.Cells)), make([]Training, len(s.Cells))
	for i := range s.Cells {
		c := dataChecker{Cell: &s.Cells[i], facts: facts[i]}
		c.check()
		asked := c.rounds()
		settled[i] = c.settle(asked)
		rounds[i] = c.affordable(asked, &settled[i])
		for _, m := range c.Experiment.misfits(rounds[i]) {
			c.fail(m.path, "%s", m.message)
		}
		ps.addCell(c.Cell, &c.problems)
	}
	if err := ps.err(len(s.Cells)); err != nil {
		return err
	}
	for i := range s.Cells {
		if t := &s.Cells[i].Experiment.Training; t.Privacy != nil && t.Privacy.Budget != nil && rounds[i] < t.Rounds {
			s.Cells[i].shortened = t.Rounds
		}
		s.Cells[i].data, s.Cells[i].phrases, s.Cells[i].sizes = facts[i].of(&s.Cells[i]), facts[i].Phrases, facts[i].Sizes
		s.Cells[i].similar = facts[i].Similar
		for _, source := range s.Cells[i].Experiment.named(&facts[i]) {
			*source.sha256 = s.sourceOf(source.files)
		}
		if splits := facts[i].FileSplits; splits != nil {
			s.Cells[i].Experiment.Data.FileSplits = splits
		}
		if d := &s.Cells[i].Experiment.Data; d.ReadingRules == 0 {
			d.ReadingRules = facts[i].rules()
		}
		t := &s.Cells[i].Experiment.Training
		if directory, digest := t.CodeOf(); directory != "" {
			*digest = facts[i].Code.String()
			if t.ScorerApart() {
				t.ScorerSHA256 = facts[i].Scorer.String()
			}
		}
		s.Cells[i].Experiment.Training.adopt(&settled[i])
		s.Cells[i].Experiment.Training.Rounds = rounds[i]
		if err := s.Cells[i].checkRead(); err != nil {
			return err
		}
		if p := s.Cells[i].Experiment.Training.Privacy; p.Secret() {
			p.Key = facts[i].Key
		}
	}
	return nil
}

// rules returns the rules of reading that all sources of a cell need.
func (f *Facts) rules() text.Rules {
	needed := f.Rules
	for i := range f.Prepared {
		needed = max(needed, f.Prepared[i].Rules)
	}
	return needed
}

// AddProfiles adds the users of data.devices.profiles, one device each.
func (f *Facts) AddProfiles(profiles datasets.ImportMetrics) {
	if f.DevicesError != nil {
		return
	}
	f.Devices.Devices += profiles.Users
	f.Devices.Profiles, f.Devices.ProfileExamples = profiles.Users, profiles.Examples
	f.Users, f.Examples = f.Users+profiles.Users, f.Examples+profiles.Examples
}

// dataChecker compares a cell with its data.
type dataChecker struct {
	*Cell
	facts    Facts
	problems problems
}

// fail reports a field at its position in the file.
func (c *dataChecker) fail(path, format string, args ...any) {
	c.problems.add(c.place(path), path, format, args...)
}

func (c *dataChecker) check() {
	e, f := &c.Experiment, c.facts
	for _, s := range e.named(&f) {
		c.checkDigest(s)
	}
	if given := e.Data.FileSplits; given != nil && f.FileSplits != nil && !slices.Equal(given, f.FileSplits) {
		c.fail("data.file_splits", "is %q, but the files of %s have the splits %q; correct it, or remove it", given, e.Data.Source, f.FileSplits)
	} else if given != nil && len(given) != len(f.Files) {
		c.fail("data.file_splits", "has %s, but %s has %s; expected a split for each file", readable.Count(len(given), "split"), e.Data.Source, readable.Count(len(f.Files), "file"))
	}
	for j, s := range e.Sources() {
		if most := f.Prepared[j].Examples; s.Of.Batch > most {
			c.fail(s.Path+".batch", "is %d; expected at most %d, the examples of %s", s.Of.Batch, most, s.Of.Source)
		}
	}
	c.checkCode()
	if s := e.Data.Select; s != nil && s.Examples == selection.Unlabelled && f.Unlabelled == 0 {
		c.fail("data.select.examples", "is unlabelled, and every image of %s has a label; expected another selection", e.Data.Source)
	}
	c.checkVocabulary("data.vocabulary.size", e.Data.Vocabulary.Size)
	c.checkVocabulary("data.select.words.outside", e.Data.Outside().Size)
	c.checkCanaries()
	if p := e.Training.Privacy; p.Secret() && f.Key == "" && p.Key != "" {
		c.fail("training.privacy.key", "is %s, but no key is given: name the key's file with --secret-key or COALMINE_SECRET_KEY_FILE", p.Key)
	} else if p.Secret() && f.Key == "" {
		c.fail("training.privacy.randomness", "is secret, but no key is given: name a key file with --secret-key or COALMINE_SECRET_KEY_FILE; a missing file is created")
	} else if p.Secret() && p.Key != "" && p.Key != f.Key {
		c.fail("training.privacy.key", "is %s, but the given key is %s; restore the key in its file, name its file with --secret-key, or correct the field", p.Key, f.Key)
	}
	for _, m := range e.Audit.Requested() {
		if checker, ok := m.Fields.(audits.DataChecker); ok {
			checker.CheckData(e.Setting(), f.of(c.Cell), func(paths []string, format string, args ...any) { c.fail(paths[0], format, args...) })
		}
	}
	if available, unit := c.available(); f.DevicesError != nil {
		c.fail("data.devices", "cannot be made from the users of %s: %v", e.Data.Source, f.DevicesError)
	} else if available == 0 {
		c.failEmpty()
	} else if e.Training.Cohort > available {
		c.fail("training.cohort", "is %d; expected at most %d, the %s of %s", e.Training.Cohort, available, unit, e.Data.Source)
	}
}

// checkDigest compares the given digest of a source with its digest.
func (c *dataChecker) checkDigest(s namedSource) {
	if found := SourceDigest(s.files).String(); *s.sha256 != "" && *s.sha256 != found {
		c.fail(s.path+".sha256", "is %s, but %s has %s: restore the data, or correct the field", *s.sha256, s.source, found)
	}
}

// checkVocabulary compares the size of a vocabulary with the available words. A size of 0 means none.
func (c *dataChecker) checkVocabulary(path string, size int) {
	if tokens := c.facts.Tokens; tokens > 0 && size > 0 && size != tokens {
		c.fail(path, "is %d; expected %[3]d, the number of tokens of %[2]s", size, c.Experiment.Data.Tokenizer, tokens)
	} else if tokens == 0 && size > c.facts.DistinctWords {
		c.fail(path, "is %d; expected at most %d, the distinct words in the training part of %s", size, c.facts.DistinctWords, c.Experiment.Data.Source)
	}
}

// failEmpty reports why there are no training data.
func (c *dataChecker) failEmpty() {
	switch d := &c.Experiment.Data; {
	case d.Users.Words > 0:
		c.fail("data.users.words", "is %d, but every user of %s has fewer words; expected a smaller number (0 sets no minimum)", d.Users.Words, d.Source)
	case d.selectedWords() != nil:
		c.fail("data.select.words.outside", "is %d, which leaves no training data: no user of %s uses a less frequent word; expected less", d.Outside().Size, d.Source)
	default:
		c.fail("data.held_out_users.fraction", "is %s, which, with the other parts, leaves no user of %s to train on; expected less", d.HeldOutUsers.Fraction, d.Source)
	}
}

// available returns the number and unit of the items from which a cohort is drawn.
func (c *dataChecker) available() (n int, unit string) {
	if c.Experiment.Training.Central() {
		return c.facts.Examples, "training examples"
	}
	users, joining := c.facts.Users, c.Experiment.joining()
	switch d := &c.Experiment.Data; {
	case d.Devices != nil:
		return users, "devices"
	case joining > 0:
		return users + joining, "users and canary clients"
	case d.Users.Words == 0:
		return users, "users"
	}
	return users, "balanced users"
}

// rounds returns the number of rounds, or 0 if it is unknown.
func (c *dataChecker) rounds() int {
	t := &c.Experiment.Training
	if t.Epochs == 0 {
		return t.Rounds
	}
	items, _ := c.available()
	// Use the epochs as written: 0.1 is a tenth, not the nearest float64.
	exact, ok := new(big.Rat).SetString(strconv.FormatFloat(t.Epochs, 'g', -1, 64))
	if !ok || t.Cohort < 1 || items < 1 {
		return 0
	}
	exact.Mul(exact, big.NewRat(int64(items), int64(t.Cohort)))
	up := new(big.Int).Add(exact.Num(), new(big.Int).Sub(exact.Denom(), big.NewInt(1)))
	up.Quo(up, exact.Denom())
	if f, _ := lookup("training.rounds"); !f.limits.contains(new(big.Rat).SetInt(up)) {
		c.fail("training.epochs", "is %g, which gives %s rounds; expected rounds%s", t.Epochs, up, f.limits)
		return 0
	}
	return int(up.Int64())
}

// spareUsers is the largest relative difference assumed between the sizes of a refilled and the balanced population.
const spareUsers = 0.05

// affordable returns how many of the rounds the privacy budget allows. If the size of the population is
// approximate, it returns a few more: the server counts exactly during training, and stops.
func (c *dataChecker) affordable(rounds int, t *Training) int {
	pop, _ := c.available()
	if t.Privacy == nil || t.Privacy.Budget == nil || t.Cohort > pop || t.Privacy.NoiseMultiplier == 0 {
		return rounds
	}
	if scheme, err := population.FindPartition(c.Experiment.Data.Partition); err != nil {
		c.fail("data.partition", "cannot be accounted for: %v", err)
	} else if scheme.Refills && c.Experiment.Data.Users.Words > 0 {
		pop += int(spareUsers * float64(pop))
	}
	budget := privacy.Budget{Epsilon: t.Privacy.Budget.Epsilon, Delta: t.Privacy.Budget.Delta}
	settled := c.Experiment
	settled.Training = *t
	meter, err := privacy.NewMeter(settled.recipe(pop))
	if err != nil {
		c.fail("training.privacy", "cannot be accounted for: %v", err)
		return rounds
	}
	if budget.Allows(meter, rounds) { // usually sufficient, and faster
		return rounds
	}
	allowed := budget.RoundsWithin(meter)
	if allowed == 0 {
		c.fail("training.privacy.budget", "does not allow a single round, which costs epsilon_proved %s at delta %g; expected a larger epsilon, more noise or a smaller cohort",
			privacy.Epsilon(meter.EpsilonProved(1, budget.Delta)), budget.Delta)
	}
	return min(rounds, allowed)
}

// recipe returns the privacy recipe of a clipped training. The population counts users or, for central
// training, records.
func (e *Experiment) recipe(population int) privacy.Recipe {
	t := &e.Training
	return privacy.Recipe{
		Population: population, Cohort: t.Cohort, Rounds: t.Rounds, NoiseMultiplier: t.Privacy.NoiseMultiplier, Delta: t.Privacy.Delta,
		Sampling: t.Sampling, Conversion: t.Privacy.Accounting(), Accountant: t.Privacy.Prover(), ClipQuantile: t.Privacy.ClipQuantile(),
		Unit: e.Unit(), Randomness: cmp.Or(t.Privacy.Randomness, privacy.Seeded),
		LossDistribution: t.Privacy.Prover() == privacy.Tightest,
		Separation:       t.Separation, Participations: t.Participations, Mechanism: t.Privacy.Mechanism.Config(), NoiseBy: t.Privacy.NoiseBy,
		Control: e.Audit.Controlled(),
	}
}

// Unit returns the unit that the privacy guarantee protects.
func (e *Experiment) Unit() string {
	return reports.Unit(e.Training.Central(), e.Data.Devices != nil, e.Data.Partition, e.Data.Users.Words == 0)
}

// Privacy returns the privacy cost of a resolved cell at the end of its training, or nil without a
// guarantee. The cost of an iid cell is approximate, because the run determines the size of its population.
func (c *Cell) Privacy() (*privacy.Report, error) {
	if c.Experiment.Training.Privacy == nil || c.data == nil {
		return nil, nil
	}
	population := c.data.Users + c.Experiment.joining()
	if c.Experiment.Training.Central() {
		population = c.data.Examples
	}
	report, err := privacy.Account(c.Experiment.recipe(population))
	return &report, err
}

// Warnings returns one sentence for each doubtful choice.
func (c *Cell) Warnings() []string {
	warnings := slices.Concat(c.measuringWarnings(), c.userWarnings(), c.canaryWarnings(), c.phraseWarnings(), c.powerWarnings())
	if b := c.Experiment.Batches(c.sizes); b != nil {
		warnings = append(warnings, b.String())
	}
	if t := &c.Experiment.Training; c.shortened > 0 {
		warnings = append(warnings, fmt.Sprintf("training.privacy.budget allows %d of the %s", t.Rounds, readable.Count(c.shortened, "round")))
	}
	if c.Experiment.Training.Engine == PyTorchEngine {
		warnings = append(warnings, "training.engine is pytorch: results are reproducible only on the same kind of device, as far as PyTorch guarantees, and differ from those of native by rounding")
	}
	if t := &c.Experiment.Training; t.Record != nil && t.Privacy.Secret() {
		warnings = append(warnings, "training.record stores updates before the server's noise, with the indexes of their users, which reveals the secret cohorts")
	}
	for _, m := range c.Experiment.Audit.Requested() {
		if w, ok := m.Fields.(audits.Warner); ok && c.data != nil {
			warnings = append(warnings, w.Warnings(c.Experiment.Setting(), c.data)...)
		}
	}
	return warnings
}

// maxPerUser is the largest mean number of canaries per user at which they count as independent.
const maxPerUser = 0.1

// canaryWarnings returns one sentence for each doubtful number of insertions.
func (c *Cell) canaryWarnings() []string {
	canaries := c.Experiment.Canaries
	if canaries == nil {
		return nil
	}
	each := float64(canaries.PerConfiguration * len(canaries.AllFormats()))
	perUser := each * float64(len(canaries.ExampleProbability)) * total(canaries.UserProbability)
	replaced := canaries.replaced(each, 1)
	amount := "the probabilities"
	if len(canaries.Insertions) > 0 && c.data != nil {
		replaced, amount = float64(canaries.copies())/float64(max(1, c.data.Examples)), "canaries.insertions"
	}
	var warnings []string
	if c.data != nil && c.data.Users > 0 && c.data.Carriers == 0 {
		warnings = append(warnings, fmt.Sprintf("canaries: probably no user (of %d) gets one, so audits of canaries would measure nothing: raise %s or canaries.per_configuration", c.data.Users, amount))
	}
	if replaced > audits.MaxReplaced {
		warnings = append(warnings, fmt.Sprintf("canaries replace about %s of the training examples; above %g%% they change the model: lower %s or canaries.per_configuration", readable.Share(replaced), 100*audits.MaxReplaced, amount))
	}
	if perUser > maxPerUser {
		warnings = append(warnings, fmt.Sprintf("a user carries %.2g canaries on average; above %g canaries share users and are no longer independent: lower canaries.user_probability or canaries.per_configuration", perUser, maxPerUser))
	}
	return warnings
}

// replaced returns the probability that canaries replace at least one of a user's examples. Canaries are independent;
// each is their number in each configuration, and examples is the number of examples of the user.
func (c *Canaries) replaced(each, examples float64) float64 {
	kept := 0.0 // logarithm of the probability that none is replaced
	for _, user := range c.UserProbability {
		for _, example := range c.ExampleProbability {
			some := -math.Expm1(examples * math.Log1p(-example.Float64())) // for a user with the canary
			kept += each * math.Log1p(-float64(user.Float64()*some))
		}
	}
	return -math.Expm1(kept)
}

// carriers returns the mean number of users with at least one canary, for users with equally many examples.
func (c *Canaries) carriers(users, examples int) int {
	if c == nil || users == 0 || examples == 0 {
		return 0
	}
	mean := float64(examples) / float64(users)
	if len(c.Insertions) > 0 {
		spared := max(0, 1-float64(c.copies())/float64(examples)) // probability that an example is kept
		return int(math.Round(float64(users) * (1 - math.Pow(spared, mean))))
	}
	each := float64(c.PerConfiguration * len(c.AllFormats()))
	return int(math.Round(float64(users) * c.replaced(each, mean)))
}

// minInData is the expected number of canaries in the data from which phraseWarnings warns.
const minInData = 0.01

// userWarnings warns of users with similar names.
func (c *Cell) userWarnings() []string {
	s := &c.similar
	if s.Names == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s has %s that differ from another only by surrounding spaces or Unicode form, first %+q and %+q: they count as separate users; spell each user in one way",
		c.Experiment.Data.Source, readable.Count(s.Names, "user name"), s.Name, s.Other)}
}

// phraseWarnings warns of formats whose matches in the data may include some of the canaries.
func (c *Cell) phraseWarnings() []string {
	var warnings []string
	for i, found := range c.phrases {
		g := c.Experiment.Canaries.groups(&c.Experiment.Data)[i]
		all := g.Sequences(c.Experiment.Data.OrdinaryTokens(), 0)
		within := float64(g.Count) * min(1, float64(found)/all)
		if within < minInData {
			continue
		}
		warnings = append(warnings, fmt.Sprintf("%s already has %d of the %.0f sequences %q, among them about %.2g of the %d canaries of this format, which are then exposed without being inserted; use other fixed %s, or more random ones",
			c.Experiment.Data.Source, found, all, g.ShortString(), within, g.Count, c.Experiment.Data.Level.Scheme().Unit))
	}
	return warnings
}

func total(ps []numbers.Probability) float64 {
	var sum float64
	for _, p := range ps {
		sum += p.Float64()
	}
	return sum
}
