package privacy

import (
	"cmp"
	"errors"
	"fmt"

	"coalmine/privacy/correlated"
	"coalmine/privacy/rdp"
)

// Conversion names the theorem that turns Rényi divergence into (epsilon,
// delta).
type Conversion = rdp.Conversion

// The conversions; see package rdp.
const (
	Classic  = rdp.Classic
	Improved = rdp.Improved
)

// Randomness names the source of noise and cohorts, which determines against
// whom the guarantee holds.
type Randomness string

const (
	// Seeded draws them from the experiment's seed, so that a run repeats.
	Seeded Randomness = "seeded"
	// Secret draws them from an unpublished key.
	Secret Randomness = "secret"
)

// Choices lists the values for an experiment file.
func (Randomness) Choices() []string { return []string{string(Seeded), string(Secret)} }

// NoiseBy names the party that adds the noise of a round.
type NoiseBy string

const (
	// ByServer adds the noise to the mean of the updates.
	ByServer NoiseBy = "server"
	// ByDevices adds a share of the noise to every update: see NoiseShare.
	ByDevices NoiseBy = "devices"
)

// Choices lists the values for an experiment file.
func (NoiseBy) Choices() []string { return []string{string(ByServer), string(ByDevices)} }

// IsZero reports whether the server adds the noise, so that JSON that omits zero values is the
// same with ByServer and with the empty value.
func (n NoiseBy) IsZero() bool { return n == "" || n == ByServer }

// Recipe holds the settings that determine the privacy of a training.
type Recipe struct {
	Population      int        // users that cohorts are drawn from, 1 or more
	Cohort          int        // users in a round, 1 to Population
	Rounds          int        // 0 or more
	NoiseMultiplier float64    // noise on the sum over the clip norm; 0 means no noise and no privacy
	Delta           float64    // within (0, 1); may be 0 without noise
	Sampling        Sampling   // empty is FixedSize
	Conversion      Conversion // empty is Classic
	Accountant      Accountant // empty is Tightest
	Unit            string     // the protected unit, such as "balanced user"; empty is "user"
	Randomness      Randomness // empty without a run
	// Separation and Participations are as in Round; only for Separated sampling.
	Separation     int `json:",omitempty"`
	Participations int `json:",omitempty"`
	// Mechanism correlates the noise of rounds of Separated sampling; nil leaves it independent.
	// NoiseMultiplier refers to the underlying independent noise.
	Mechanism *correlated.Mechanism `json:",omitempty"`
	// NoiseBy = ByDevices changes no number if every member of a cohort adds its share.
	NoiseBy NoiseBy `json:",omitzero"`
	// ClipQuantile is set with adaptive clipping. NoiseMultiplier is then the
	// total; the updates get ClipQuantile.UpdateNoise.
	ClipQuantile *ClipQuantile
	// Tree is set with tree aggregation in place of sampled cohorts; a Meter rejects it.
	Tree *Participations
	// Control is a deliberate fault of the training; it does not change the computed
	// cost.
	Control Control `json:",omitempty"`
	// LossDistribution also asks for bounds from both sides by the privacy loss distribution.
	LossDistribution bool
}

// withDefaults fills in the defaults of empty fields.
func (r Recipe) withDefaults() Recipe {
	r.Sampling, r.Conversion = cmp.Or(r.Sampling, FixedSize), cmp.Or(r.Conversion, Classic)
	r.Accountant, r.Unit = cmp.Or(r.Accountant, Tightest), cmp.Or(r.Unit, wholeUser)
	return r
}

// Validate reports every field that is out of range, one sentence each.
func (r Recipe) Validate() error {
	r = r.withDefaults()
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(r.Population >= 1, "population %d: expected at least 1 user", r.Population)
	check(r.Cohort >= 1, "cohort %d: expected at least 1 user", r.Cohort)
	check(r.Cohort <= r.Population || r.Population < 1,
		"cohort %d is above the population of %d: lower the cohort or raise the population", r.Cohort, r.Population)
	check(r.Rounds >= 0, "rounds %d: expected 0 or more", r.Rounds)
	if r.NoiseMultiplier != 0 && !positive(r.NoiseMultiplier) {
		errs = append(errs, noiseError(r.NoiseMultiplier))
	}
	check(r.Delta > 0 && r.Delta < 1 || r.Delta == 0 && r.NoiseMultiplier == 0, "delta %v: expected a number above 0 and below 1", r.Delta)
	_, err := FindScheme(r.Sampling)
	errs = append(errs, err, r.validateCorrelation(), r.Conversion.Validate(), r.Accountant.Validate())
	if r.ClipQuantile != nil {
		_, err := r.ClipQuantile.UpdateNoise(r.NoiseMultiplier)
		errs = append(errs, err)
	}
	check(r.NoiseBy.IsZero() || r.NoiseBy == ByDevices, "noise by %q: expected %s or %s", r.NoiseBy, ByServer, ByDevices)
	check(r.Randomness == "" || r.Randomness == Seeded || r.Randomness == Secret,
		"randomness %q: expected %s or %s", r.Randomness, Seeded, Secret)
	return errors.Join(errs...)
}

func noiseError(z float64) error {
	return fmt.Errorf("noise multiplier %v: expected a positive number, or 0 for no noise and an infinite epsilon", z)
}
