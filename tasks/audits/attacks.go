package audits

// Attacked is implemented by outcomes on attacks that rank something, each of which has a row
// of its own in tables.
type Attacked interface {
	// AttackRows are what the attacks have found, in order.
	AttackRows() []Attack
}

// Attack is what one attack has found: a row of tables. What it does not measure is nil.
type Attack struct {
	// Attack is its name for people, Of what it is measured on.
	Attack string `parquet:"attack"`
	Of     string `parquet:"of"`
	// Users over whom means are taken, or who stand in what is ranked; Items that are ranked.
	Users *int64 `parquet:"users"`
	Items *int64 `parquet:"items"`
	// AP is the average precision, in [0, 1], with its interval; Chance is that of scores that
	// know nothing, and Factor how many times that it is, with its interval. Share is that of
	// what is relevant, the chance of Orekondy et al. 2018.
	AP         float64  `parquet:"ap"`
	APLow      *float64 `parquet:"ap_low"`
	APHigh     *float64 `parquet:"ap_high"`
	Chance     float64  `parquet:"chance"`
	Factor     float64  `parquet:"factor"`
	FactorLow  *float64 `parquet:"factor_low"`
	FactorHigh *float64 `parquet:"factor_high"`
	Share      *float64 `parquet:"share"`
	Top1       *float64 `parquet:"top1"`
	Top1Chance *float64 `parquet:"top1_chance"`
	Top5       *float64 `parquet:"top5"`
	Top5Chance *float64 `parquet:"top5_chance"`
	// AUC is the area under the receiver operating characteristic.
	AUC *float64 `parquet:"auc"`
	P   *float64 `parquet:"p"`
}

// PairChance is the average precision of pairs of which half belong together, by scores that
// know nothing.
const PairChance = 0.5

// AttackedUser is how well an attack finds one user: a row of tables.
type AttackedUser struct {
	Attack string `parquet:"attack"`
	// User is the number of the user among those that the data have.
	User   int64   `parquet:"user"`
	AP     float64 `parquet:"ap"`
	Chance float64 `parquet:"chance"`
}
