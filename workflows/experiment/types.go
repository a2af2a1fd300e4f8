package experiment

import (
	"coalmine/internal/numbers"
	"coalmine/models"
	"coalmine/privacy"
	"coalmine/privacy/correlated"
	"coalmine/tasks"
	"coalmine/tasks/canaries"
)

// The tags of the fields below are read by the decoder and by the generator of
// the JSON Schema and of the reference page:
//
//	json      the field's name in the file
//	default   its value where the file gives none
//	required  "true": every cell must have it
//	range     the interval of its values, such as "(0,1]"
//	when      another field's value that it belongs to: "algorithm=fedavg", or with
//	          a path where the field stands in another block
//	unit      what it counts
//	source    where its default or definition comes from
//	also      words that people try instead, for suggestions
//
// A field of a type with Choices may have the words that these list: no tag repeats the
// words of a registry. Methods and Gates stand for the fields that the audits add (package
// all).

// Experiment is one cell, fully resolved.
type Experiment struct {
	// Name of the experiment. It becomes part of the run's id: 1 to 48 lower-case
	// letters, digits and hyphens, beginning with a letter or digit.
	Name string `json:"name" required:"true"`
	// Label names the cell in tables in place of the label that is made of its settings. It is set in
	// grid.include, or is an axis of the grid; at most 80 characters. It does not change the cell's
	// cache key. Absent: the settings in which cells differ.
	Label string `json:"label,omitempty" also:"title"`
	// Seed from which every random stream derives. Cells that differ in one
	// field draw the same numbers for everything else.
	Seed uint64 `json:"seed" default:"1" range:"[0,9007199254740991]" also:"random_seed"`
	// Data says which text is read, or which images, and how they are divided among users.
	Data Data `json:"data" also:"dataset"`
	// Canaries to insert into the training part. Absent: none are inserted, and
	// nothing is audited against them.
	Canaries *Canaries `json:"canaries,omitempty"`
	// Prepare are trainings that this one rests on. Absent: it rests on none.
	Prepare *Prepare `json:"prepare,omitempty"`
	// Model is the network that is trained.
	Model Model `json:"model"`
	// Training says how it is trained.
	Training Training `json:"training"`
	// Audit says what is measured, and when. Absent: the model is trained and
	// nothing is measured.
	Audit *Audit `json:"audit,omitempty"`
}

// Prepare are trainings that others rest on.
type Prepare struct {
	// Classifier by whose predictions data.select chooses. Its learning rate is by default
	// that of central training.
	Classifier *Preparation `json:"classifier,omitempty"`
	// LanguageModel of public data under which data.select finds examples unlikely.
	LanguageModel *LanguagePreparation `json:"language_model,omitempty" also:"public_model" source:"Augenstein et al. 2020, section 2.1"`
	// SecondLanguageModel under which these examples are likelier: with it the choice goes by
	// the likelihood ratio. Absent: by the likelihood alone.
	SecondLanguageModel *LanguagePreparation `json:"second_language_model,omitempty" source:"Augenstein et al. 2020, section 2.1"`
}

// LanguagePreparation is the central training of the network of the model block. Its
// vocabulary is that of the cell. Its learning rate is by default that of central training.
type LanguagePreparation struct {
	// Source of its data, in any form that data.source has; all of it trains. It is read as
	// the data are, by data.form and data.columns, unless it says its own. Absent: the
	// data of the cell, without planted faults and before anything is selected.
	Source string `json:"source,omitzero" also:"path file dataset"`
	// SHA256 of the source, as data.sha256.
	SHA256 string `json:"sha256,omitempty"`
	Format
	Preparation
}

// Preparation is the central training of a cnn on the data of the cell, without planted
// faults and before anything is selected. Cells that name an equal one share it.
type Preparation struct {
	// Steps of the training.
	Steps int `json:"steps" required:"true" range:"[1,1000000000]" unit:"steps" also:"rounds"`
	// Batch is the number of records in a step.
	Batch int `json:"batch" default:"32" range:"[1,1000000]" unit:"records" also:"batch_size cohort"`
	Optimizer
}

// Canaries are random sequences of ordinary words or, at the byte level, of
// symbols of an alphabet. They are inserted on purpose: by every pair of a user
// probability and an example probability, or chosen numbers of times.
type Canaries struct {
	Form
	// Formats are several forms of canaries, in place of the one above: a list of blocks,
	// each with words, alphabet, format and symbols as above. Each form has as many
	// canaries of its own, and an audit compares a canary with others of its form.
	Formats []Form `json:"formats,omitempty" also:"forms templates"`
	// PerConfiguration is the number of different canaries for each pair of
	// probabilities or number of insertions, and for each of the formats.
	PerConfiguration int `json:"per_configuration" default:"10" range:"[1,10000]" unit:"canaries" also:"count number num" source:"Thakkar et al. 2020, section 4.1"`
	// UserProbability is p_u: the probability that a user becomes a secret
	// sharer of a canary. One value or a list. Required unless insertions are given.
	UserProbability []numbers.Probability `json:"user_probability,omitempty" range:"(0,1]" also:"p_u" source:"Thakkar et al. 2020, section 4.1"`
	// ExampleProbability is p_e: the probability that an example of a secret
	// sharer is replaced by the canary. One value or a list. Required unless insertions
	// are given.
	ExampleProbability []numbers.Probability `json:"example_probability,omitempty" range:"(0,1]" also:"p_e" source:"Thakkar et al. 2020, section 4.1"`
	// Insertions are chosen in place of probabilities: a canary replaces exactly so many
	// examples, drawn from all that train. One number or a list.
	Insertions []int `json:"insertions,omitempty" range:"[1,1000000000]" unit:"examples" also:"copies repetitions inserted" source:"Carlini et al. 2019, section 6.1"`
	// HeldBack canaries of each format are drawn like the others and inserted nowhere:
	// controls.
	HeldBack int `json:"held_back" default:"10" range:"[0,10000]" unit:"canaries"`
}

// Form is what canaries look like.
type Form struct {
	// Words of each canary; at the byte level its random symbols, by default 10 or
	// what the format has. At most data.sequence.
	Words int `json:"words,omitzero" default:"5" range:"[1,1000]" unit:"words (byte level: symbols)" also:"length" source:"Thakkar et al. 2020, section 4.1"`
	// Alphabet that random symbols are drawn from: 0-9, a-z, A-Z with a-z, all
	// printable characters of ASCII, or those that symbols lists.
	Alphabet canaries.Alphabet `json:"alphabet,omitzero" default:"lower" when:"data.level=byte"`
	// Format of a canary, such as "my number is ###-####": every # is a random symbol
	// of the alphabet, all else stands as it is. At the word level, such as "my favourite
	// dish is # with #": every # is a random word, and the others must be in the
	// vocabulary. Absent: random symbols or words alone.
	Format string `json:"format,omitzero" also:"template" source:"Carlini et al. 2019"`
	// Target is the second text of a canary where the data are pairs, such as "meine
	// nummer ist ###-####". Where both texts have random symbols, the target repeats those
	// of the format in order: one secret stands in both. A format without any leaves the
	// secret to the target alone.
	Target string `json:"target,omitzero" source:"Carlini et al. 2019, section 6.4"`
	// Symbols that random ones are drawn from, in place of a named alphabet: characters of
	// ASCII, such as "0123456789abcdef". A list of several texts, such as [about, after, again],
	// has whole words, all of one length: every # of a format is one of them; random sampling
	// and the skew-normal fit rank such canaries. At the word level a list of words of the
	// vocabulary, such as [red, green, blue]; absent: every ordinary word.
	Symbols []string `json:"symbols,omitempty"`
}

// Model is the network that is trained.
type Model struct {
	// Kind of the cells of a language model: cifg-lstm is an LSTM with coupled input and
	// forget gates, conv a convolution over the last inputs, and so not recurrent. Or, for
	// images, cnn, a classifier, and gan, a generative adversarial network. Or, for what is
	// said of whole examples (data.label), regressor and tagger, an lstm over a text whose last
	// output says it, and cnn-tagger, the layers of the cnn over an image. external is a model that
	// is not ours: training.command trains it, or training.client_command its clients.
	Kind models.Kind `json:"kind" default:"cifg-lstm" also:"name type architecture" source:"Thakkar et al. 2020, section 4.1"`
	// Embedding dimension.
	Embedding int `json:"embedding,omitzero" default:"96" range:"[1,65536]" when:"kind=cifg-lstm lstm gru conv regressor tagger" source:"Thakkar et al. 2020, section 4.1"`
	// Units of each layer; of conv, filters.
	Units int `json:"units,omitzero" default:"670" range:"[1,65536]" when:"kind=cifg-lstm lstm gru conv regressor tagger" also:"hidden hidden_size hidden_units" source:"Thakkar et al. 2020, section 4.1"`
	// Layers of cells, each fed with the outputs of the one below.
	Layers int `json:"layers,omitzero" default:"1" range:"[1,4]" when:"kind=cifg-lstm lstm gru conv regressor tagger" unit:"layers" source:"Thakkar et al. 2020, section 4.1"`
	// Kernel is the number of inputs that an output of a convolution depends on: the
	// newest and those before it. So the whole model sees layers x (kernel - 1) tokens
	// before the newest.
	Kernel int `json:"kernel,omitzero" default:"7" range:"[2,64]" when:"kind=conv" unit:"tokens" also:"kernel_size filter_size" source:"Zhang et al. 2015, table 1"`
	// Projection is the width that every layer's output is projected to, by
	// default the embedding's. 0: no projection, so that the outputs are as wide as
	// units.
	Projection *int `json:"projection,omitempty" range:"[0,65536]" when:"kind=cifg-lstm lstm gru conv" source:"Sak et al. 2014, section 2.2"`
	// Untied gives the output weights of its own. Else one table serves as
	// embedding and output, and projection must be as wide as embedding.
	Untied bool `json:"untied,omitzero" default:"false" when:"kind=cifg-lstm lstm gru conv" source:"Press and Wolf 2017"`
	// Latent is the number of normal inputs of a generator.
	Latent int `json:"latent,omitzero" default:"128" range:"[1,65536]" when:"kind=gan" source:"Augenstein et al. 2020, table 9"`
	// Normalization of the discriminator's outputs: over a batch, over an example (layer),
	// or none. The generator's is over a batch. Only layer and none leave the gradient
	// penalty about single examples.
	Normalization models.Normalization `json:"normalization,omitzero" default:"batch" when:"kind=gan" source:"batch: Augenstein et al. 2020; layer: Gulrajani et al. 2017, section 4"`
	// Loss of discriminator and generator.
	Loss models.AdversarialLoss `json:"loss,omitzero" default:"wasserstein" when:"kind=gan" source:"Augenstein et al. 2020, appendix C.2"`
	// Penalty is the coefficient of the gradient penalty. 0: none.
	Penalty *float64 `json:"penalty,omitempty" range:"[0,1e6]" when:"kind=gan" also:"gradient_penalty" source:"10 in Augenstein et al. 2020, appendix C.2"`
}

// Algorithm names how a model is trained.
type Algorithm string

// Algorithms.
const (
	FedAvg Algorithm = "fedavg"
	SGD    Algorithm = "sgd"
	// External trainings are somebody else's.
	External Algorithm = "external"
)

// Choices lists the algorithms as words of an experiment file.
func (Algorithm) Choices() []string {
	return []string{string(FedAvg), string(SGD), string(External)}
}

// Training says how the model is trained.
type Training struct {
	// Algorithm: fedavg trains on a cohort of users in each round; sgd takes
	// steps on minibatches of records, as in central training. sgd goes through
	// the records shuffled (iid) or user after user (by-user). external leaves all of the
	// training to training.command, and is what a file means that gives this and no algorithm.
	Algorithm Algorithm `json:"algorithm" default:"fedavg"`
	// Command that trains the model, with its arguments, as the system's shell reads them. It
	// runs in a directory with the data and the job, and leaves a model that it scores texts
	// by: docs/contracts/train.md.
	Command string `json:"command,omitzero" when:"algorithm=external" also:"cmd trainer train_command"`
	// ClientCommand trains one client in place of this program, with its arguments, as the
	// system's shell reads them. Workers keep it over all rounds: it gets the parameters of a round
	// and one user's examples, and gives back parameters: docs/contracts/client.md. What
	// training.client says of steps then stands in training.job.
	ClientCommand string `json:"client_command,omitzero" when:"model.kind=external" also:"client_cmd client_trainer"`
	// Code is the directory with the code that the command runs: a copy of it is where the
	// command starts. What its files hold is a part of a result's identity. Absent: there is
	// none, and the command says by itself what it runs, such as a container by its digest.
	Code string `json:"code,omitzero" when:"model.kind=external" also:"source directory"`
	// CodeSHA256 is the digest of the code, as a submitted run always carries it. Given in the
	// file, it guards against other code.
	CodeSHA256 string `json:"code_sha256,omitzero" when:"model.kind=external"`
	// CodeRoles assigns files of the code to one role, so that changing them does not rerun the
	// others. Absent: each role gets all files.
	CodeRoles *CodeRoles `json:"code_roles,omitempty" when:"model.kind=external"`
	// ScorerSHA256 is the digest of the code of the command that scores texts, where code_roles makes
	// it another than that of the training.
	ScorerSHA256 string `json:"scorer_sha256,omitzero" when:"algorithm=external"`
	// Job is a block of any fields, which the command gets as it stands: learning rates, layers,
	// epochs. A grid may have axes over its fields, such as training.job.dropout.
	Job Free `json:"job,omitempty" when:"model.kind=external" also:"config hyperparameters parameters settings"`
	// Deterministic declares that the command leaves the same files and metrics in every
	// execution. Else two executions may differ: the one that is committed first is used, and
	// recorded.
	Deterministic bool `json:"deterministic,omitzero" default:"false" when:"model.kind=external"`
	// Shards are the files that the training data are written to, in/train-00000-of-00008.jsonl
	// and so on, for commands that read them side by side: runs of users of about equally many
	// examples, no user in two. Part of a result's identity. Absent: one file, in/train.jsonl.
	Shards int `json:"shards,omitzero" range:"[1,1000]" when:"algorithm=external" unit:"files" also:"files num_shards"`
	// Class of the workers that the command runs on, and all tasks that ask a client_command: gpu
	// ones are started with --class gpu. In a cluster they all take --allow-commands.
	Class tasks.Class `json:"class,omitzero" default:"compute" when:"model.kind=external"`
	// Environment names variables of the workers that the command gets besides the usual ones (PATH,
	// HOME, CUDA_VISIBLE_DEVICES and others that docs/operations.md lists), such as HF_TOKEN. A worker
	// of a cluster must allow each by --commands-may-read-env. Not part of a result's identity: a value
	// that changes results belongs in the command, NAME=value python3 train.py.
	Environment []string `json:"environment,omitempty" when:"model.kind=external" also:"env"`
	// Limits bound the command, a client_command by itself in each slot of a worker.
	Limits *CommandLimits `json:"limits,omitempty" when:"model.kind=external"`
	// Rounds of training; with sgd, steps. Exactly one of rounds and epochs is
	// given in a file. With external what the metrics of the command count up to, by default 1.
	Rounds int `json:"rounds,omitzero" range:"[1,1000000000]" unit:"rounds (sgd: steps)" also:"steps iterations num_rounds"`
	// Epochs over the training data, in place of rounds: the rounds are
	// epochs x users / cohort (sgd: steps, epochs x examples / cohort), rounded up.
	Epochs float64 `json:"epochs,omitzero" range:"(0,1000000]" when:"algorithm=fedavg sgd" unit:"epochs" also:"num_epochs n_epochs max_epochs num_train_epochs"`
	// Cohort is the number of users in a round, weighted equally if their
	// updates are clipped, else by their examples; with sgd, the records of a minibatch.
	Cohort int `json:"cohort,omitzero" required:"true" range:"[1,100000000]" when:"algorithm=fedavg sgd" unit:"users (sgd: records)" also:"batch batch_size minibatch clients users_per_round clients_per_round num_clients cohort_size"`
	// Chunks are the tasks that a round's cohort is split into. They are part of
	// a result's identity, since they fix the order of sums. Where the cohort is
	// smaller than the default, it is the cohort.
	Chunks int `json:"chunks,omitzero" default:"8" range:"[1,10000]" when:"algorithm=fedavg" unit:"tasks"`
	// StepsPerTask is the number of SGD steps that one task takes; part of a
	// result's identity. Training is audited and kept only between tasks.
	StepsPerTask int `json:"steps_per_task,omitzero" default:"500" range:"[1,100000000]" when:"algorithm=sgd" unit:"steps"`
	// Sampling of the cohort: fixed-size draws it without replacement within a
	// round; poisson lets every user in independently with probability
	// cohort / users, so that the cohort is the expected size of a round and a
	// round may be empty; shuffled cuts cohorts from a new order every epoch; separated keeps
	// rounds between two participations of a user, for training.privacy.mechanism. A
	// clipped sum is divided by the expected size, and an empty round still gets its
	// noise. With sgd it is about the records of a step, is for a training with
	// privacy only, and by default poisson.
	Sampling privacy.Sampling `json:"sampling,omitzero" default:"fixed-size" when:"algorithm=fedavg sgd" source:"Thakkar et al. 2020, appendix A; sgd: Abadi et al. 2016"`
	// Separation is the least number of rounds from one participation of a user to the next:
	// users are dealt into so many groups, which the rounds take in turn. Absent: users /
	// cohort, rounded down, the most that there can be; it then stays recorded.
	Separation int `json:"separation,omitzero" range:"[1,1000000000]" when:"sampling=separated" unit:"rounds" also:"min_sep minimum_separation" source:"Choquette-Choo et al. 2023"`
	// Participations are the most rounds of a user. A training in which somebody would take
	// part more often is refused. Absent: as many as the rounds, the users and the separation
	// make.
	Participations int `json:"participations,omitzero" range:"[1,1000000000]" when:"sampling=separated" unit:"rounds" also:"max_participations" source:"Choquette-Choo et al. 2023"`
	// Client is the optimizer that sees the data: of each client or, with sgd,
	// of the central training.
	Client Client `json:"client,omitzero" when:"algorithm=fedavg sgd"`
	// Server is the optimizer that applies a round's mean update.
	Server *Server `json:"server,omitempty" default:"{}" when:"algorithm=fedavg"`
	// Generator of a gan is trained by the server after each round. It sees no data but
	// through the discriminator, and has its guarantee.
	Generator *Generator `json:"generator,omitempty" default:"{}" when:"model.kind=gan" source:"Augenstein et al. 2020, algorithm 1"`
	// Privacy clips each user's update, with sgd each record's gradient, and adds
	// noise. Absent or null: neither.
	Privacy *Privacy `json:"privacy,omitempty" when:"algorithm=fedavg sgd" also:"dp"`
	// QuantizeBits is the number of bits to which the weights of every measured model
	// are rounded, linearly and by tensor, once it is trained; the exported last model
	// is so, too. The training goes on with the weights as they were, so that cells
	// which differ in nothing else share it. Absent or null: no rounding.
	QuantizeBits *int `json:"quantize_bits,omitempty" range:"[2,8]" when:"algorithm=fedavg sgd" unit:"bits" also:"quantize quantization" source:"Carlini et al. 2019, section 9.1.3"`
	// EarlyStopping ends the training when the loss on the validation part no longer
	// falls, and takes the model of the least loss for the last one. The steps given
	// are then the most that there are. Absent or null: all steps.
	EarlyStopping *EarlyStopping `json:"early_stopping,omitempty" when:"algorithm=sgd" source:"Carlini et al. 2019, section 2.3"`
	// StopAt ends the training when the model is as useful as that on the validation part,
	// so that models are compared at equal utility. The rounds (sgd: steps) given are then the
	// most that there are. Absent or null: all of them.
	StopAt *StopAt `json:"stop_at,omitempty" when:"algorithm=fedavg sgd" also:"target stop_when"`
	// Checkpoints say which models are kept besides the audited ones and the last.
	Checkpoints Checkpoints `json:"checkpoints,omitzero" when:"algorithm=fedavg sgd"`
	// Record keeps what each device sends to the server, for audits that read it. Absent or
	// null: nothing is kept.
	Record *Record `json:"record,omitempty" when:"algorithm=fedavg" also:"recording updates" source:"Orekondy et al. 2018"`
}

// CodeRoles names files of training.code by the role that gets them: a path below the directory, a
// pattern such as *.py, or a folder, which means all files below it. A file that no role names goes to
// every role, a file that several name to these.
type CodeRoles struct {
	// Training lists the files that only training.command gets.
	Training []string `json:"training,omitempty"`
	// Client lists the files that only training.client_command gets.
	Client []string `json:"client,omitempty"`
	// Scorer lists the files for the scoring command only.
	Scorer []string `json:"scorer,omitempty"`
}

// CommandLimits bound a command that is not ours. What is more ends it, and its cell fails. They are
// no part of a result's identity: run the file with a higher limit, and it goes on from its checkpoint.
type CommandLimits struct {
	// Time that it may take in one go. Absent: that of tasks (--task-timeout), after which it goes
	// on from its checkpoint. Not with client_command.
	Time int `json:"time,omitzero" range:"[1,100000000]" unit:"seconds" also:"timeout seconds"`
	// Answer is the time that a client_command, or the command which scores texts by the model, may
	// take for one answer; to load the model is a part of the first. Absent: 600 and 300.
	Answer int `json:"answer,omitzero" range:"[1,100000000]" unit:"seconds" also:"request_timeout answer_timeout"`
	// Memory that its processes may have together, on Linux: enforced where the worker has a control
	// group of its own, else looked at four times a second. Absent: no limit.
	Memory int `json:"memory,omitzero" range:"[1,100000000]" unit:"MiB"`
	// Files that its directory may hold, all together. Absent: no limit. Not with
	// client_command.
	Files int `json:"files,omitzero" range:"[1,100000000]" unit:"MiB" also:"disk"`
	// Network says that it may use the network. Else it has none where the platform can do that:
	// on Linux, where the worker may make namespaces.
	Network bool `json:"network,omitzero" default:"false"`
}

// Central reports whether this is central training on records.
func (t *Training) Central() bool { return t.Algorithm == SGD }

// Client is the optimizer that sees the data.
type Client struct {
	Optimizer
	// Batch is the number of examples in a client's minibatch. Papers that use
	// this setting do not state it.
	Batch int `json:"batch,omitzero" default:"16" range:"[1,1000000]" when:"algorithm=fedavg" unit:"examples" also:"batch_size"`
	// Epochs that a client makes over its own data in a round.
	Epochs int `json:"epochs,omitzero" default:"1" range:"[1,10000]" when:"algorithm=fedavg" unit:"epochs" also:"local_epochs num_epochs"`
	// Steps are the most minibatches that a client trains on in a round. Absent: all that
	// its epochs make.
	Steps int `json:"steps,omitzero" range:"[1,1000000000]" when:"algorithm=fedavg" unit:"steps" also:"max_steps local_steps" source:"6 in Augenstein et al. 2020, table 9"`
	// GradientClip bounds the L2 norm of every minibatch's gradient. Absent: no
	// bound. The papers have no such option; it keeps high learning rates stable.
	// training.privacy.clip of sgd stands in its place.
	GradientClip *float64 `json:"gradient_clip,omitempty" range:"(0,1e9]" also:"max_grad_norm clip"`
	// Dropout is the probability that an element of a layer's output is
	// dropped before the next layer or the output layer sees it. In training only.
	Dropout float64 `json:"dropout,omitzero" default:"0" range:"[0,1)" source:"Zaremba et al. 2014, section 3"`
	// WeightDecay w multiplies all parameters by 1 - learning rate x w before each
	// step, apart from the gradient.
	WeightDecay float64 `json:"weight_decay,omitzero" default:"0" range:"[0,1]" source:"Loshchilov and Hutter 2019, algorithm 2"`
	// Proximal mu adds mu/2 x the squared L2 distance from the round's model to
	// each client's loss: FedProx.
	Proximal float64 `json:"proximal,omitzero" default:"0" range:"[0,1e6]" when:"algorithm=fedavg" also:"mu fedprox" source:"Li et al. 2020, equation 2"`
	// Noise is the standard deviation of the Gaussian noise that a client adds to each
	// element of its update before it leaves, after the clip of training.privacy. It is no
	// part of epsilon. 0: none.
	Noise float64 `json:"noise,omitzero" default:"0" range:"[0,1e6]" when:"algorithm=fedavg" also:"local_noise" source:"Orekondy et al. 2018, section 7"`
	// Compress is what a client then does to have fewer bytes to send: it keeps few
	// elements, or few bits of each. A clipped update without noise stays within the clip.
	// Absent or null: it sends all.
	Compress *Compress `json:"compress,omitempty" when:"algorithm=fedavg" also:"compression"`
}

// Server is the optimizer that applies a round's mean update, taken as the
// negative of a gradient: sgd at rate 1 is FedAvg, momentum is FedAvgM, fedadam
// is FedAdam as Reddi et al. 2021 state it, and adam the same with Kingma and Ba's corrections.
type Server struct{ Optimizer }

// Generator says how the server trains the generator of a gan: by gradient descent.
type Generator struct {
	// Steps after each round.
	Steps int `json:"steps" default:"6" range:"[0,1000000]" unit:"steps" source:"Augenstein et al. 2020, table 9"`
	// Batch is the number of images in a step.
	Batch int `json:"batch" default:"32" range:"[1,1000000]" unit:"images" also:"batch_size" source:"Augenstein et al. 2020, table 9"`
	// LearningRate of a step.
	LearningRate float64 `json:"learning_rate" default:"0.005" range:"(0,1e6]" also:"lr rate" source:"Augenstein et al. 2020, table 9"`
}

// Privacy is differential privacy at the level of users, as DP-FedAvg with
// fixed-size rounds (Thakkar et al. 2020, appendix A), or with sgd at the level of
// records, as DP-SGD (Abadi et al. 2016).
type Privacy struct {
	// Clip bounds the L2 norm of each user's update, with sgd that of the gradient of
	// each record's mean loss per token, over all tensors together.
	Clip float64 `json:"clip" required:"true" range:"(0,1e9]" also:"clip_norm clipping_norm l2_norm_clip" source:"0.2 in Thakkar et al. 2020, section 4.2.1"`
	// NoiseMultiplier z: the mean update (gradient) gets Gaussian noise of standard
	// deviation z x clip / cohort. 0: clipping alone, with infinite epsilon.
	NoiseMultiplier float64 `json:"noise_multiplier" default:"0" range:"[0,1e6]" also:"noise sigma z" source:"1 in Thakkar et al. 2020, section 4.2.1"`
	// NoiseBy says who adds that noise. server, also where the field is absent: the server, to
	// the mean. devices: every device of the cohort adds z x clip / sqrt(cohort) to its clipped
	// update, which is so much in the sum; recorded updates have it, and epsilon is the same for
	// whoever sees the sum alone. For cohorts of a fixed size, with fedavg.
	NoiseBy privacy.NoiseBy `json:"noise_by,omitzero" also:"distributed_noise local_noise"`
	// Delta of the (epsilon, delta) guarantee; required with noise.
	Delta float64 `json:"delta,omitzero" range:"(0,1)" source:"1e-7 in Thakkar et al. 2020, section 4.2.1"`
	// Conversion is the theorem by which epsilon follows from the Rényi divergence,
	// in the metrics of the rounds and the results, and with accountant rdp in the budget. classic, also where
	// the field is absent: Mironov 2017, which the papers use. improved: Canonne,
	// Kamath and Steinke 2020, never larger.
	Conversion privacy.Conversion `json:"conversion,omitzero"`
	// Accountant is what epsilon_proved of the results and the budget are counted by.
	// tightest, also where the field is absent: privacy loss distributions or Rényi
	// divergences, whichever prove less. rdp: Rényi divergences by the conversion alone.
	// The metrics of the rounds are always by these.
	Accountant privacy.Accountant `json:"accountant,omitzero"`
	// Randomness says where noise and cohorts come from. seeded, also where the
	// field is absent: from the experiment's seed, so that whoever knows it can
	// subtract the noise. secret: from a key that is kept outside the results
	// (--secret-key); required for any model that is to be released.
	Randomness privacy.Randomness `json:"randomness,omitzero"`
	// Key is the fingerprint of the secret key, 32 hex digits. Given in the file,
	// it guards against another key; a submitted run always carries it.
	Key string `json:"key,omitzero"`
	// Adaptive lets the clip norm follow a quantile of the update norms; clip is
	// then that of the first round, and noise_multiplier the total of the noise
	// on the updates and on the count behind the quantile. Absent: clip is fixed. Not
	// with sgd.
	Adaptive *Adaptive `json:"adaptive,omitempty"`
	// Mechanism correlates the noise of the rounds, each of which takes back a part of what
	// earlier ones got: DP-FTRL. noise_multiplier is then about the independent noise that it
	// is made of. With training.sampling: separated, a fixed clip norm and fedavg. Absent or
	// null: the noise of rounds is independent.
	Mechanism *Mechanism `json:"mechanism,omitempty" also:"dp_ftrl matrix_mechanism correlated_noise" source:"Kairouz et al. 2021; McMahan et al. 2024"`
	// Budget ends the training before the round that would pass it. Absent: all
	// rounds run.
	Budget *Budget `json:"budget,omitempty" also:"epsilon target_epsilon"`
}

// EarlyStopping ends a training when the validation loss no longer falls.
type EarlyStopping struct {
	// Every so many SGD steps the loss is measured, moved up to the end of a task
	// (training.steps_per_task).
	Every int `json:"every" required:"true" range:"[1,1000000000]" unit:"steps"`
	// Patience is how many measurements in a row may bring no smaller loss.
	Patience int `json:"patience" default:"3" range:"[1,1000000]" unit:"measurements"`
}

// StopAt ends a training at a recall or a perplexity on the validation part. Exactly one of
// recall_at_1 and perplexity is given. The models are language models on words.
type StopAt struct {
	// RecallAt1 is the share of ordinary words of the validation part that the model has to
	// guess first.
	RecallAt1 numbers.Probability `json:"recall_at_1,omitzero" range:"(0,1]" also:"recall accuracy value"`
	// Perplexity of the ordinary words of the validation part that the model has to come down
	// to.
	Perplexity float64 `json:"perplexity,omitzero" range:"[1,1000000]" also:"ppl"`
	// Every so many rounds (sgd: steps) it is measured; with sgd moved up to the end of a task
	// (training.steps_per_task).
	Every int `json:"every" required:"true" range:"[1,1000000000]" unit:"rounds (sgd: steps)"`
}

// Adaptive lets the clip norm follow a quantile of the update norms.
type Adaptive struct {
	// Quantile of the update norms that the clip norm follows.
	Quantile float64 `json:"quantile" default:"0.5" range:"(0,1)" source:"Andrew et al. 2021, section 4"`
	// LearningRate of the clip norm, which is multiplied by exp(-learning_rate x
	// (share of clients at or below it - quantile)) after every round.
	LearningRate float64 `json:"learning_rate" default:"0.2" range:"(0,10]" source:"Andrew et al. 2021, section 4"`
	// CountNoise is the standard deviation of the noise on the number of clients
	// at or below the clip norm, by default cohort / 20. More than half the
	// noise multiplier; none is added where noise_multiplier is 0.
	CountNoise float64 `json:"count_noise,omitzero" range:"(0,1e9]" unit:"clients" source:"Andrew et al. 2021, section 4"`
}

// Mechanism is how the noise of rounds hangs together. Numbers that are absent are found by
// the least noise on the last model at equal privacy, for the rounds, the separation and the
// participations of the cell, and stay recorded.
type Mechanism struct {
	// Kind: blt takes a few buffers of the model's size for any number of rounds, banded one
	// for each band but one, tree one for each level of a binary tree over the rounds.
	Kind correlated.Kind `json:"kind" default:"blt"`
	// Buffers of a blt.
	Buffers int `json:"buffers,omitzero" default:"3" range:"[1,10]" when:"kind=blt" source:"McMahan et al. 2024"`
	// Scales of a blt, one for each buffer, each 0 or above and 1 together at most.
	Scales []float64 `json:"scales,omitempty" range:"[0,1]" when:"kind=blt" also:"output_scale omega"`
	// Decays of a blt, one for each buffer.
	Decays []float64 `json:"decays,omitempty" range:"[0,1]" when:"kind=blt" also:"buf_decay theta"`
	// Bands of a banded matrix.
	Bands int `json:"bands,omitzero" default:"8" range:"[1,1000]" when:"kind=banded" source:"Choquette-Choo et al. 2023"`
	// Coefficients of a banded matrix, one for each band: the first is 1, and none is above the
	// one before.
	Coefficients []float64 `json:"coefficients,omitempty" range:"[0,1]" when:"kind=banded"`
}

// Budget is the most privacy that a training may cost, counted as proved.
type Budget struct {
	// Epsilon is the limit of the proved epsilon (epsilon_proved in the results).
	Epsilon float64 `json:"epsilon" required:"true" range:"(0,1e9]"`
	// Delta at which the budget is counted, by default training.privacy.delta.
	Delta float64 `json:"delta,omitzero" range:"(0,1)"`
}

// Checkpoints say which models are kept besides the audited ones and the last.
type Checkpoints struct {
	// Every so many rounds a checkpoint is kept: a count or a share of the rounds.
	Every numbers.Share `json:"every" default:"5%" unit:"rounds or %"`
	// Keep the newest so many of them.
	Keep int `json:"keep" default:"3" range:"[0,100000]" unit:"checkpoints"`
}

// Audit says what is measured, and when.
type Audit struct {
	// Every so many rounds the model is audited, and always after the last: a
	// count or a share of the rounds. Absent: after the last only.
	Every numbers.Share `json:"every,omitzero" unit:"rounds or %"`
	// At are further rounds after which the model is audited, the earliest first: counts
	// or shares of the rounds. Like the multiples of every, those of sgd are moved up to
	// the end of a task (training.steps_per_task).
	At []numbers.Share `json:"at,omitempty" unit:"rounds or %"`
	// Control is a fault that the training has on purpose, while privacy is accounted for as if
	// it had none: a positive control of the audits of privacy that stand beside it. Everything
	// that prints the epsilon says that it does not hold. The training is federated, with noise.
	Control privacy.Control `json:"control,omitempty"`
	// Methods are the fields of the audits that there are.
	Methods Methods
	// FailIf holds limits on what the finished model may show, and on what it must have
	// learned. A cell beyond one of them makes the command exit with status 4.
	FailIf *FailIf `json:"fail_if,omitempty" also:"gates limits"`
}

// FailIf holds limits on what the finished model may show, and on what it must have learned. Each
// is the last value that does not fail; controls and never-inserted canaries do not count.
type FailIf struct {
	// Gates are the fields of the audits that there are.
	Gates Gates
}
