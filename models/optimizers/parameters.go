package optimizers

// Parameter is a number that update rules may use.
type Parameter struct {
	// Name in experiment files and in the JSON of a Config.
	Name string

	in     func(*Config) *float64
	given  func(*RuleParameters) **float64 // nil if experiment files cannot state it
	allows func(float64) bool
	wanted string // describes the allowed values
}

var (
	momentumShare = Parameter{
		Name: "momentum", allows: isDecay, wanted: decays,
		in:    func(c *Config) *float64 { return &c.Momentum },
		given: func(g *RuleParameters) **float64 { return &g.Momentum },
	}
	beta1 = Parameter{
		Name: "beta1", allows: isDecay, wanted: decays,
		in:    func(c *Config) *float64 { return &c.Beta1 },
		given: func(g *RuleParameters) **float64 { return &g.Beta1 },
	}
	beta2 = Parameter{
		Name: "beta2", allows: isDecay, wanted: decays,
		in:    func(c *Config) *float64 { return &c.Beta2 },
		given: func(g *RuleParameters) **float64 { return &g.Beta2 },
	}
	// float32 holds the least epsilon with full precision.
	epsilon = Parameter{
		Name: "epsilon", allows: func(x float64) bool { return x >= 1e-30 && x <= 1e6 }, wanted: "1e-30 to 1e6",
		in:    func(c *Config) *float64 { return &c.Epsilon },
		given: func(g *RuleParameters) **float64 { return &g.Epsilon },
	}
	initial = Parameter{
		Name: "initial", allows: func(x float64) bool { return x >= 0 && x <= 1e6 }, wanted: "0 to 1e6",
		in: func(c *Config) *float64 { return &c.Initial },
	}
)

// parameters lists all parameters in the order of a Config.
var parameters = []Parameter{momentumShare, beta1, beta2, epsilon, initial}

const decays = "at least 0 and below 1"

// isDecay checks in float32, the precision of the steps.
func isDecay(x float64) bool { return x >= 0 && float32(x) < 1 }

// RuleParameters holds the parameters of an update rule from an experiment file; nil selects the rule's
// default. The tags are documented in package experiment: a file may state a parameter only with
// the rules in "when", which use it.
type RuleParameters struct {
	// Momentum coefficient, by default 0.9.
	Momentum *float64 `json:"momentum,omitempty" range:"[0,1)" when:"optimizer=momentum nesterov" source:"Thakkar et al. 2020, appendix B"`
	// Decay of the mean gradient, by default 0.9.
	Beta1 *float64 `json:"beta1,omitempty" range:"[0,1)" when:"optimizer=adam fedadam yogi"`
	// Decay of the mean squared gradient, by default 0.999; fedadam 0.99, rmsprop 0.9, adadelta (its
	// rho) 0.95.
	Beta2 *float64 `json:"beta2,omitempty" range:"[0,1)" when:"optimizer=adam fedadam yogi rmsprop adadelta"`
	// Term added to the denominator (adadelta: under both roots), by default 1e-8; yogi and fedadam
	// 1e-3, adagrad 1e-10, adadelta 1e-6.
	Epsilon *float64 `json:"epsilon,omitempty" range:"[1e-30,1e6]" when:"optimizer=adam fedadam yogi rmsprop adagrad adadelta"`
}

// Config returns the rule of a kind with the given parameters and defaults for other parameters. An
// unknown kind is an error.
func (g *RuleParameters) Config(kind Kind) (Config, error) {
	config, err := Defaults(kind)
	if err != nil {
		return Config{}, err
	}
	for _, p := range parameters {
		if p.given == nil {
			continue
		}
		if value := *p.given(g); value != nil {
			*p.in(&config) = *value
		}
	}
	return config, nil
}

// Complete fills in every parameter that the rule uses. An unknown kind changes nothing.
func (g *RuleParameters) Complete(kind Kind) {
	config, err := g.Config(kind)
	if err != nil {
		return
	}
	rule, _ := rules.Find(kind) // the kind is known: Defaults found it
	for _, d := range rule.Parameters {
		if d.given != nil {
			*d.given(g) = new(*d.in(&config))
		}
	}
}
