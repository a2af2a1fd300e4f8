// Package dataexport writes the data of a cell of a run as tables for other programs: the part and use of every
// example of the source, the training data of each user, the place of each copy of a canary, the cohort of each
// round, the updates of its devices, the references of the canaries, and the losses of members and held-out users.
//
//	cell := dataexport.Cell{Archive: archive, Plan: p, Cell: &p.Cells[0], Experiment: e}
//	for _, table := range dataexport.Tables(e) {
//		err := cell.Write(ctx, table, dataexport.JSONLines, file)
//	}
//
// Rows are written as they are read or drawn. Memory does not grow with the rows: it grows with the users
// and words of the source and, for Parts, with one byte per example.
package dataexport

import (
	"slices"

	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/audits/membership/membership"
	"coalmine/workflows/experiment"
)

// Table names one of the tables.
type Table string

// The tables of a cell. The types of their rows are below.
const (
	// Vocabulary has a Word for each token.
	Vocabulary Table = "vocabulary"
	// Parts has an Example for each example of the source, user after user.
	Parts Table = "parts"
	// Population has a Trained for each training example, user after user.
	Population Table = "population"
	// Canaries has a Canary for each canary; canaries planted by an audit come last.
	Canaries Table = "canaries"
	// References has a Reference for each random sequence, in the order of the draws.
	References Table = "references"
	// Cohorts has a Cohort for each round.
	Cohorts Table = "cohorts"
	// Devices has a Device for each user of the population.
	Devices Table = "devices"
	// Updates has an Update for each layer of each recorded update.
	Updates Table = "updates"
	// Memberships has a Membership for each balanced user, held-out ones last.
	Memberships Table = "memberships"
)

// Tables returns the tables of a cell: canaries if the experiment has some, references with random
// sampling, cohorts if a seed samples users (a secret key keeps them secret), devices if users are divided
// into devices, updates if the training records them, and memberships if an audit measures them.
func Tables(e *experiment.Experiment) []Table {
	tables := []Table{Vocabulary, Parts, Population}
	if e.Canaries != nil || planted(e) {
		tables = append(tables, Canaries)
	}
	if _, ranked := experiment.RequestedFields[*randomsampling.Fields](e.Audit); ranked {
		tables = append(tables, References)
	}
	if e.Training.Algorithm == experiment.FedAvg && !e.Training.Privacy.Secret() {
		tables = append(tables, Cohorts)
	}
	if e.Data.Devices != nil {
		tables = append(tables, Devices)
	}
	if e.Training.Record != nil {
		tables = append(tables, Updates)
	}
	if _, audited := experiment.RequestedFields[*membership.Fields](e.Audit); audited {
		tables = append(tables, Memberships)
	}
	return tables
}

// DefaultTables returns the tables to write if none is named: all of a cell's tables except Updates, which
// may be larger than the others together, and Memberships, which only a finished run has.
func DefaultTables(e *experiment.Experiment) []Table {
	return slices.DeleteFunc(Tables(e), func(t Table) bool { return t == Updates || t == Memberships })
}

// planted reports whether an audit plants its own canaries in the data.
func planted(e *experiment.Experiment) bool {
	return slices.ContainsFunc(e.Audit.Requested(), func(m experiment.Method) bool {
		_, plants := m.Fields.(audits.Planter)
		return plants && !audits.Sends(m.Fields)
	})
}

// AllTables lists all tables.
func AllTables() []Table {
	return []Table{Vocabulary, Parts, Population, Canaries, References, Cohorts, Devices, Updates, Memberships}
}

// Word is a token and its text.
type Word struct {
	Token int32  `json:"token" parquet:"token"`
	Text  string `json:"text" parquet:"text"`
}

// Example is an example of the source with its part.
type Example struct {
	// Example is the index of the example in the source, from 0. If the source is one file, it is line Example+1.
	Example int64  `json:"example" parquet:"example"`
	User    string `json:"user" parquet:"user,dict"`
	// Part is train, test or validation. Balancing omits some examples of train.
	Part string `json:"part" parquet:"part,dict"`
	// Tokens are the model's input: <begin>, the words, and <end> unless the words fill a whole sequence.
	Tokens []int32 `json:"tokens" parquet:"tokens,list"`
}

// Trained is an example of the population.
type Trained struct {
	// User numbers the population's users from 0, Example the examples of the user.
	User    int64 `json:"user" parquet:"user"`
	Example int64 `json:"example" parquet:"example"`
	// Canary is the number of the canary in this place, or null.
	Canary *int64 `json:"canary" parquet:"canary,optional"`
	// Tokens are the trained tokens, with <begin> and <end> as in Example.
	Tokens []int32 `json:"tokens" parquet:"tokens,list"`
}

// Canary is a canary with the places of its copies.
type Canary struct {
	Number int64 `json:"number" parquet:"number"`
	// Tokens are its words, without <begin> and <end>.
	Tokens []int32  `json:"tokens" parquet:"tokens,list"`
	Words  []string `json:"words" parquet:"words,list"`
	// UserProbability and ExampleProbability are exact, such as 1/5000. They are empty for held-back
	// canaries, for canaries with InsertedTimes, and for canaries planted by an audit.
	UserProbability    string `json:"user_probability" parquet:"user_probability"`
	ExampleProbability string `json:"example_probability" parquet:"example_probability"`
	HeldBack           bool   `json:"held_back" parquet:"held_back"`
	// InsertedTimes is the configured number of insertions, or 0.
	InsertedTimes int64 `json:"inserted_times" parquet:"inserted_times"`
	// Format names the canary's format. It is empty if all canaries have one format.
	Format string `json:"format" parquet:"format"`
	// Sharers is the number of balanced users selected to carry it, before an iid shuffle.
	Sharers int64 `json:"sharers" parquet:"sharers"`
	// Copies are its places in the population.
	Copies []Place `json:"copies" parquet:"copies,list"`
	// Coin is the coin of a canary planted by an audit, or null.
	Coin *Coin `json:"coin" parquet:"coin,optional"`
}

// Place is an example of a user of the population.
type Place struct {
	User    int64 `json:"user" parquet:"user"`
	Example int64 `json:"example" parquet:"example"`
}

// Coin decides whether a canary planted by an audit is in the data.
type Coin struct {
	User int64 `json:"user" parquet:"user"`
	// Example is the example that the coin decides about, or -1 for the whole user.
	Example  int64 `json:"example" parquet:"example"`
	Included bool  `json:"included" parquet:"included"`
}

// Reference is a random sequence against which canaries are ranked.
type Reference struct {
	// Number numbers the references of a format in the order of the draws, from 0.
	Number int64 `json:"number" parquet:"number"`
	// Tokens follow the prefix of a canary.
	Tokens []int32 `json:"tokens" parquet:"tokens,list"`
	// Format names the references' format. It is empty if all canaries have one format.
	Format string `json:"format" parquet:"format"`
}

// Cohort holds the users sampled for a round.
type Cohort struct {
	Round int64 `json:"round" parquet:"round"`
	// Users are users of the population, ascending.
	Users []int32 `json:"users" parquet:"users,list"`
}

// Device is a user of the population, if users are divided into devices.
type Device struct {
	// Device is the number of the population's user.
	Device int64 `json:"device" parquet:"device"`
	// User is the user whose examples the device has, numbered from 0 among the divided users. Profiles
	// have the numbers after these.
	User int64 `json:"user" parquet:"user"`
	// Shadow reports whether the device is the adversary's.
	Shadow bool `json:"shadow" parquet:"shadow"`
	// Set is seen, unseen, held-out or profile.
	Set string `json:"set" parquet:"set,dict"`
	// Examples is the number of its training examples.
	Examples int64 `json:"examples" parquet:"examples"`
}

// Update is one layer of the update that a device sent in a round.
type Update struct {
	// Round is the round, from 1.
	Round  int64  `json:"round" parquet:"round"`
	Device int64  `json:"device" parquet:"device"`
	Layer  string `json:"layer" parquet:"layer,dict"`
	// Values are the values of the layer's parameters in their order, or their projection. The next row
	// overwrites them.
	Values []float32 `json:"values" parquet:"values,list"`
}

// Membership holds the data of a user that a membership audit reads.
type Membership struct {
	// User numbers the balanced training users from 0, and then the held-out users.
	User int64 `json:"user" parquet:"user"`
	// Member reports whether the audited model trained on the user.
	Member bool `json:"member" parquet:"member"`
	// Replaced is the number of the user's examples that canaries replaced. No loss counts them.
	Replaced int64 `json:"replaced" parquet:"replaced"`
	// Targets is the number of predicted tokens or labels. The audit omits users without any.
	Targets int64 `json:"targets" parquet:"targets"`
	// Loss is the sum over the targets under the audited model, in nats.
	Loss float64 `json:"loss" parquet:"loss"`
	// MinK is the mean of the lowest fifth of the targets' log-likelihoods, in nats. MinKPlusPlus is the
	// same for log-likelihoods standardized by the mean and deviation of the model's distribution.
	// Curvature is the mean difference of log-likelihoods from that mean, over the root mean square of the
	// deviations. All are nil for a model that scores only whole texts; the last two also for a model that
	// returns only the probabilities of targets.
	MinK         *float64 `json:"min_k" parquet:"min_k,optional"`
	MinKPlusPlus *float64 `json:"min_k_plus_plus" parquet:"min_k_plus_plus,optional"`
	Curvature    *float64 `json:"curvature" parquet:"curvature,optional"`
	// Words holds the number of each word of the user's text, followed by its count. Compressed is the text's length
	// in bytes after compression by zlib. For images, Words is empty and Compressed is 0.
	Words      []int64 `json:"words" parquet:"words,list"`
	Compressed int64   `json:"compressed" parquet:"compressed"`
	// References holds the losses under the reference models, in their order.
	References []ReferenceLoss `json:"references" parquet:"references,list"`
}

// ReferenceLoss is the loss of a user under a reference model.
type ReferenceLoss struct {
	// Loss is the sum over the same targets, in nats.
	Loss float64 `json:"loss" parquet:"loss"`
	// Member reports whether the reference model trained on the user.
	Member bool `json:"member" parquet:"member"`
}
