package experiment

import (
	"coalmine/internal/numbers"
	"coalmine/models"
	"coalmine/privacy"
	"coalmine/privacy/correlated"
	"coalmine/tasks"
	"coalmine/tasks/canaries"
)

// The decoder and the generator of the JSON Schema and of the reference page read the tags of the fields below:
//
//	json      the field's name in the file
//	default   its value if the file gives none
//	required  "true": every cell must have it
//	range     the interval of its values, such as "(0,1]"
//	when      another field's value that it belongs to: "algorithm=fedavg", or with
//	          a path if the field stands in another block
//	unit      the unit of its values
//	source    the source of its default or definition
//	also      words that people try instead, for suggestions
//
// A field of a type with Choices accepts the words that these list: no tag repeats the words of a
// registry. Methods and Gates represent the fields that the audits add (package all).

// Experiment is one cell, fully resolved.
type Experiment struct {
	// Name, part of the run's id: 1 to 48 lower-case letters, digits and hyphens, the first no hyphen.
	Name string `json:"name" required:"true"`
	// Name of the cell in tables, set in grid.include or by an axis, of at most 80 characters, in no cache key.
	// Absent: the settings that differ.
	Label string `json:"label,omitempty" also:"title"`
	// Seed of every random stream. Cells that differ in one field share all other draws.
	Seed uint64 `json:"seed" default:"1" range:"[0,9007199254740991]" also:"random_seed"`
	// The data and their division among users.
	Data Data `json:"data" also:"dataset"`
	// Random sequences inserted into the training part, for audits. Absent: none.
	Canaries *Canaries `json:"canaries,omitempty"`
	// Trainings whose models data.select uses.
	Prepare *Prepare `json:"prepare,omitempty"`
	// The network that is trained.
	Model Model `json:"model"`
	// The training of the model.
	Training Training `json:"training"`
	// The measurements and their rounds. Absent: none.
	Audit *Audit `json:"audit,omitempty"`
}

// Prepare holds trainings that other trainings depend on.
type Prepare struct {
	// A cnn for data.select, trained centrally on the cell's data before faults and selection.
	Classifier *Preparation `json:"classifier,omitempty"`
	// Language model for data.select.examples: unlikely, with the model block's network and the cell's vocabulary.
	LanguageModel *LanguagePreparation `json:"language_model,omitempty" also:"public_model" source:"Augenstein et al. 2020, section 2.1"`
	// Language model whose log-perplexity is subtracted from that of the first.
	SecondLanguageModel *LanguagePreparation `json:"second_language_model,omitempty" source:"Augenstein et al. 2020, section 2.1"`
}

// LanguagePreparation is the central training of a network like that of the model block, with the same
// vocabulary. Its default learning rate is that of central training.
type LanguagePreparation struct {
	// Training data, as data.source. Absent: the cell's data before faults and selection.
	Source string `json:"source,omitzero" also:"path file dataset"`
	// As data.sha256.
	SHA256 string `json:"sha256,omitempty"`
	Format
	Preparation
}

// Preparation is a central training on the cell's data before faults are planted and examples are selected.
// prepare.classifier trains a cnn. Cells with equal preparations share them.
type Preparation struct {
	// Training steps.
	Steps int `json:"steps" required:"true" range:"[1,1000000000]" unit:"steps" also:"rounds"`
	// Records in a step.
	Batch int `json:"batch" default:"32" range:"[1,1000000]" unit:"records" also:"batch_size cohort"`
	Optimizer
}

// Canaries are random sequences of ordinary words or, at the byte level, of symbols of an alphabet.
// They are inserted for every pair of a user probability and an example probability, or a chosen number of times.
type Canaries struct {
	CanaryFormat
	// Several formats, each with its own canaries and references.
	Formats []CanaryFormat `json:"formats,omitempty" also:"forms templates"`
	// Canaries for each pair of probabilities or number of insertions, and each format.
	PerConfiguration int `json:"per_configuration" default:"10" range:"[1,10000]" unit:"canaries" also:"count number num" source:"Thakkar et al. 2020, section 4.1"`
	// p_u, the probability that a user becomes a secret sharer of a canary. One value or a list;
	// required without insertions.
	UserProbability []numbers.Probability `json:"user_probability,omitempty" range:"(0,1]" also:"p_u" source:"Thakkar et al. 2020, section 4.1"`
	// p_e, the probability that a canary replaces an example of its secret sharer. One value or a
	// list; required without insertions.
	ExampleProbability []numbers.Probability `json:"example_probability,omitempty" range:"(0,1]" also:"p_e" source:"Thakkar et al. 2020, section 4.1"`
	// Training examples that a canary replaces, instead of the probabilities. One number or a list.
	Insertions []int `json:"insertions,omitempty" range:"[1,1000000000]" unit:"examples" also:"copies repetitions inserted" source:"Carlini et al. 2019, section 6.1"`
	// Canaries of each format that are never inserted: controls.
	HeldBack int `json:"held_back" default:"10" range:"[0,10000]" unit:"canaries"`
	// Design of the canaries that audit.one_run and audit.many_runs draw beside this block's, which stay random; a
	// block of a design alone inserts none. Words: random; rare-words, of the vocabulary's least frequent tenth;
	// own-word, a rare word repeated, in no other canary; learned, own words exchanged until gradients at the
	// initial model hardly overlap. Images: mislabelled, with a class other than the record's; random pixels and class.
	Design canaries.Design `json:"design,omitempty"`
}

// CanaryFormat is the format of canaries.
type CanaryFormat struct {
	// Words of each canary, at most data.sequence. At the byte level symbols, by default 10 or the format's.
	Words int `json:"words,omitzero" default:"5" range:"[1,1000]" unit:"words (byte level: symbols)" also:"length" source:"Thakkar et al. 2020, section 4.1"`
	// Alphabet of the random symbols.
	Alphabet canaries.Alphabet `json:"alphabet,omitzero" default:"lower" when:"data.level=byte"`
	// Text in which every # is a random symbol of the alphabet, such as "my number is ###-####", at the word and
	// subword levels a random word; other words must be in the vocabulary (subword: one token each). Absent: only #.
	Format string `json:"format,omitzero" also:"template" source:"Carlini et al. 2019"`
	// Second text of a canary with data.pairs. Its random symbols repeat those of the format in order; if the format
	// has none, only the target has the secret.
	Target string `json:"target,omitzero" source:"Carlini et al. 2019, section 6.4"`
	// Symbols in place of an alphabet: ASCII characters such as "0123456789abcdef", or words of one
	// length, one for each # of a format (ranked by random sampling and the skew-normal fit). At the word
	// level words of the vocabulary, by default all ordinary ones; at the subword level words of one token
	// each, by default the tokenizer's first 512 of letters.
	Symbols []string `json:"symbols,omitempty"`
}

// Model is the network that is trained.
type Model struct {
	// Network: a language model (cifg-lstm, lstm, gru, conv, transformer), an image model (cnn, cnn-tagger, gan), a
	// regressor or tagger of texts (data.label), or an external one.
	Kind models.Kind `json:"kind" default:"cifg-lstm" also:"name type architecture" source:"Thakkar et al. 2020, section 4.1"`
	// Embedding dimension; of a transformer, the width of its blocks.
	Embedding int `json:"embedding,omitzero" default:"96" range:"[1,65536]" when:"kind=cifg-lstm lstm gru conv transformer regressor tagger" also:"width d_model n_embd" source:"Thakkar et al. 2020, section 4.1"`
	// Units of each layer; filters of conv; of a transformer, the width of its feed-forward layers, by
	// default 4 x embedding.
	Units int `json:"units,omitzero" default:"670" range:"[1,65536]" when:"kind=cifg-lstm lstm gru conv transformer regressor tagger" also:"hidden hidden_size hidden_units" source:"Thakkar et al. 2020, section 4.1"`
	// Stacked layers, at most 4; of a transformer, its blocks.
	Layers int `json:"layers,omitzero" default:"1" range:"[1,64]" when:"kind=cifg-lstm lstm gru conv transformer regressor tagger" unit:"layers" source:"Thakkar et al. 2020, section 4.1"`
	// Inputs of a convolution, including the newest. The model sees layers x (kernel - 1) tokens before it.
	Kernel int `json:"kernel,omitzero" default:"7" range:"[2,64]" when:"kind=conv" unit:"tokens" also:"kernel_size filter_size" source:"Zhang et al. 2015, table 1"`
	// Heads of attention, a divisor of embedding.
	Heads int `json:"heads,omitzero" default:"8" range:"[1,65536]" when:"kind=transformer" unit:"heads" also:"n_head num_heads" source:"Vaswani et al. 2017, section 3.2.2"`
	// Maximum number of tokens that a transformer reads, at least data.sequence.
	Context int `json:"context,omitzero" default:"128" range:"[1,65536]" when:"kind=transformer" unit:"tokens" also:"block_size n_positions context_length"`
	// Folder of a finished GPT-2, GPT-NeoX (Pythia) or Llama model in Hugging Face's layout, looked for as
	// data.source: the transformer has its sizes and begins with its weights. data.level is then subword and
	// data.tokenizer by default the folder's.
	Pretrained string `json:"pretrained,omitzero" when:"kind=transformer" also:"folder from_pretrained pretrained_model checkpoint"`
	// SHA-256 of the initial weights as a checkpoint. Submitted runs carry it.
	PretrainedSHA256 string `json:"pretrained_sha256,omitzero" when:"kind=transformer"`
	// Variants of a transformer's blocks: rotary, theta, key_heads, parallel, rms, epsilon, activation, gated,
	// unbiased (docs/model.md). Absent: those of GPT-2. Submitted runs carry those of model.pretrained.
	Blocks Free `json:"blocks,omitempty" when:"kind=transformer" source:"Black et al. 2022; Touvron et al. 2023"`
	// Products of low rank (LoRA) added to matrices of every block. Only they are trained, clipped and noised; all
	// other weights are frozen.
	Adapters *Adapters `json:"adapters,omitempty" when:"kind=transformer" also:"lora peft low_rank" source:"Hu et al. 2021"`
	// Width of every layer's projected output, by default the embedding's. 0: none.
	Projection *int `json:"projection,omitempty" range:"[0,65536]" when:"kind=cifg-lstm lstm gru conv" source:"Sak et al. 2014, section 2.2"`
	// Gives the output layer its own weights instead of the embedding's, which require that projection equals
	// embedding.
	Untied bool `json:"untied,omitzero" default:"false" when:"kind=cifg-lstm lstm gru conv transformer" source:"Press and Wolf 2017"`
	// Normal inputs of the generator.
	Latent int `json:"latent,omitzero" default:"128" range:"[1,65536]" when:"kind=gan" source:"Augenstein et al. 2020, table 9"`
	// Normalization of the discriminator over a batch, over an example (layer), or none; the generator's
	// is over a batch. batch makes the gradient penalty depend on several examples.
	Normalization models.Normalization `json:"normalization,omitzero" default:"batch" when:"kind=gan" source:"batch: Augenstein et al. 2020; layer: Gulrajani et al. 2017, section 4"`
	// Loss of discriminator and generator.
	Loss models.AdversarialLoss `json:"loss,omitzero" default:"wasserstein" when:"kind=gan" source:"Augenstein et al. 2020, appendix C.2"`
	// Coefficient of the gradient penalty, by default 10. 0: none.
	Penalty *float64 `json:"penalty,omitempty" range:"[0,1e6]" when:"kind=gan" also:"gradient_penalty" source:"10 in Augenstein et al. 2020, appendix C.2"`
}

// Adapters are products of two factors, which are trained in place of a transformer's matrices.
type Adapters struct {
	// Columns of the first factor and rows of the second, at most those of each matrix.
	Rank int `json:"rank" default:"8" range:"[1,65536]" also:"r dimension" source:"Hu et al. 2021, section 4.1"`
	// Products are multiplied by alpha / rank. Absent: the rank.
	Alpha float64 `json:"alpha,omitzero" range:"(0,1e6]" also:"lora_alpha scale" source:"Hu et al. 2021, section 4.1"`
	// Matrices with a product, by the names of docs/model.md. Absent: attention.query and attention.value.
	Matrices []models.AdaptedMatrix `json:"matrices,omitempty" also:"target_modules modules layers" source:"Hu et al. 2021, section 5.1"`
}

// Algorithm names a training algorithm.
type Algorithm string

// Algorithms.
const (
	FedAvg Algorithm = "fedavg"
	SGD    Algorithm = "sgd"
	// External is training by a command of the user.
	External Algorithm = "external"
)

// Choices lists the algorithms as words of an experiment file.
func (Algorithm) Choices() []string {
	return []string{string(FedAvg), string(SGD), string(External)}
}

// Training describes the training of the model.
type Training struct {
	// fedavg trains on a cohort of users in each round; sgd centrally on minibatches of records, shuffled
	// (iid) or user after user (by-user); training.command implies external.
	Algorithm Algorithm `json:"algorithm" default:"fedavg"`
	// Shell command that trains the model: docs/contracts/train.md.
	Command string `json:"command,omitzero" when:"algorithm=external" also:"cmd trainer train_command"`
	// Shell command that trains one client by training.job: docs/contracts/client.md.
	ClientCommand string `json:"client_command,omitzero" when:"model.kind=external" also:"client_cmd client_trainer"`
	// Trainer of clients and of sgd: native, the default, or pytorch, which trains many users at once, on a GPU
	// if there is one, and needs python3 with torch (docs/contracts/client.md). Its results differ from native ones by
	// rounding and, with dropout, by the draws; they repeat only on the same kind of device. A transformer needs
	// pytorch.
	Engine Engine `json:"engine,omitzero" when:"model.kind=cifg-lstm lstm gru transformer"`
	// Trainer of engine: pytorch.
	PyTorch *PyTorch `json:"pytorch,omitempty" default:"{}" when:"engine=pytorch"`
	// Directory of the command's code; the command starts in a copy of it. In the cache key. Absent: the command
	// names its code, such as a container by its digest.
	Code string `json:"code,omitzero" when:"model.kind=external" also:"source directory"`
	// Digest of the code, against other code. Submitted runs carry it.
	CodeSHA256 string `json:"code_sha256,omitzero" when:"model.kind=external"`
	// Files of the code by role, as paths, folders or patterns: a changed file reruns only its roles.
	// Other files belong to all.
	CodeRoles *CodeRoles `json:"code_roles,omitempty" when:"model.kind=external"`
	// Digest of the scoring command's code, if code_roles make it differ.
	ScorerSHA256 string `json:"scorer_sha256,omitzero" when:"algorithm=external"`
	// Settings for the command, unchanged. Axes may name its fields: training.job.dropout.
	Job Free `json:"job,omitempty" when:"model.kind=external" also:"config hyperparameters parameters settings"`
	// Declares that every execution gives the same files and metrics. Otherwise the first committed execution counts.
	Deterministic bool `json:"deterministic,omitzero" default:"false" when:"model.kind=external"`
	// Files of the training data, in/train-00000-of-00008.jsonl and so on, of about equally many examples,
	// no user in two; in the cache key. Absent: in/train.jsonl.
	Shards int `json:"shards,omitzero" range:"[1,1000]" when:"algorithm=external" unit:"files" also:"files num_shards"`
	// Class of the command's workers, in a cluster with --allow-commands and, for gpu, --class gpu.
	Class tasks.Class `json:"class,omitzero" default:"compute" when:"model.kind=external"`
	// Additional variables of the worker for the command (docs/operations.md), such as HF_TOKEN; cluster workers must
	// allow each by --commands-may-read-env. Not in the cache key: put values that change results into the command.
	Environment []string `json:"environment,omitempty" when:"model.kind=external" also:"env"`
	// Limits of the command, of a client_command in each slot. Beyond one the cell fails. In no cache key.
	Limits *CommandLimits `json:"limits,omitempty" when:"model.kind=external"`
	// Rounds of training. Give rounds or epochs. With external the last round of the command's metrics, by default 1.
	Rounds int `json:"rounds,omitzero" range:"[1,1000000000]" unit:"rounds (sgd: steps)" also:"steps iterations num_rounds"`
	// Rounds are epochs x users / cohort (sgd: epochs x examples / cohort), rounded up.
	Epochs float64 `json:"epochs,omitzero" range:"(0,1000000]" when:"algorithm=fedavg sgd" unit:"epochs" also:"num_epochs n_epochs max_epochs num_train_epochs"`
	// Users in a round, weighted equally if clipped, else by their examples; with sgd, records in a minibatch.
	Cohort int `json:"cohort,omitzero" required:"true" range:"[1,100000000]" when:"algorithm=fedavg sgd" unit:"users (sgd: records)" also:"batch batch_size minibatch clients users_per_round clients_per_round num_clients cohort_size"`
	// Tasks of a round, by default at most the cohort; in the cache key, because they fix the order of sums.
	Chunks int `json:"chunks,omitzero" default:"8" range:"[1,10000]" when:"algorithm=fedavg" unit:"tasks"`
	// Steps of one task; in the cache key. Models are audited and kept only between tasks.
	StepsPerTask int `json:"steps_per_task,omitzero" default:"500" range:"[1,100000000]" when:"algorithm=sgd" unit:"steps"`
	// Drawing of the cohort, with sgd of a step's records, by default poisson, which needs
	// training.privacy. With poisson, cohort is the expected size, the divisor of clipped sums; an empty round gets its
	// noise. separated is for training.privacy.mechanism.
	Sampling privacy.Sampling `json:"sampling,omitzero" default:"fixed-size" when:"algorithm=fedavg sgd" source:"Thakkar et al. 2020, appendix A; sgd: Abadi et al. 2016"`
	// Minimum number of rounds between participations of a user: groups of users that take turns. Absent: users /
	// cohort, rounded down, which is recorded.
	Separation int `json:"separation,omitzero" range:"[1,1000000000]" when:"sampling=separated" unit:"rounds" also:"min_sep minimum_separation" source:"Choquette-Choo et al. 2023"`
	// Maximum number of rounds of a user; a training with more is refused. Absent: the number that follows from rounds,
	// users and separation.
	Participations int `json:"participations,omitzero" range:"[1,1000000000]" when:"sampling=separated" unit:"rounds" also:"max_participations" source:"Choquette-Choo et al. 2023"`
	// Optimizer of each client or of the central training.
	Client Client `json:"client,omitzero" when:"algorithm=fedavg sgd"`
	// Optimizer of a round's mean update.
	Server *Server `json:"server,omitempty" default:"{}" when:"algorithm=fedavg"`
	// Training of a gan's generator by the server, after each round, only through the discriminator, whose
	// guarantee covers it.
	Generator *Generator `json:"generator,omitempty" default:"{}" when:"model.kind=gan" source:"Augenstein et al. 2020, algorithm 1"`
	// Differential privacy: clips each user's update, with sgd each record's gradient, and adds noise.
	Privacy *Privacy `json:"privacy,omitempty" when:"algorithm=fedavg sgd" also:"dp"`
	// Bits to which weights of measured and exported models are rounded, linearly and by tensor. Cells
	// that differ only here share the training.
	QuantizeBits *int `json:"quantize_bits,omitempty" range:"[2,8]" when:"algorithm=fedavg sgd" unit:"bits" also:"quantize quantization" source:"Carlini et al. 2019, section 9.1.3"`
	// Ends the training when the validation loss no longer falls, with the model of the least loss. The
	// given steps are a maximum.
	EarlyStopping *EarlyStopping `json:"early_stopping,omitempty" when:"algorithm=sgd" source:"Carlini et al. 2019, section 2.3"`
	// Ends the training of a language model on words at a utility on the validation part. Give recall_at_1
	// or perplexity. The given rounds are a maximum.
	StopAt *StopAt `json:"stop_at,omitempty" when:"algorithm=fedavg sgd" also:"target stop_when"`
	// Models kept besides the audited ones and the last.
	Checkpoints Checkpoints `json:"checkpoints,omitzero" when:"algorithm=fedavg sgd"`
	// Keeps each device's update as sent to the server, for audits.
	Record *Record `json:"record,omitempty" when:"algorithm=fedavg" also:"recording updates" source:"Orekondy et al. 2018"`
}

// Engine names the program that trains clients.
type Engine string

// Engines.
const (
	NativeEngine  Engine = "native"
	PyTorchEngine Engine = "pytorch"
)

// Choices lists the engines as words of an experiment file.
func (Engine) Choices() []string { return []string{string(NativeEngine), string(PyTorchEngine)} }

// PyTorch configures the trainer in PyTorch.
type PyTorch struct {
	// Users trained together (with sgd and privacy: records); in the cache key, because it fixes the order of
	// sums. If the device runs out of memory, the trainer halves them.
	Users int `json:"users,omitzero" default:"64" range:"[1,100000]" unit:"users"`
	// Class of the workers that train.
	Class tasks.Class `json:"class,omitzero" default:"compute"`
	// Digest of the trainer's code, against another version. Submitted runs carry it.
	CodeSHA256 string `json:"code_sha256,omitzero"`
}

// CodeRoles assigns files of training.code to roles. An entry is a path below the directory, a pattern such
// as *.py, or a folder with all files below it. Files without a role go to all roles, others only to theirs.
type CodeRoles struct {
	// Files for training.command only.
	Training []string `json:"training,omitempty"`
	// Files for training.client_command only.
	Client []string `json:"client,omitempty"`
	// Files for the scoring command only.
	Scorer []string `json:"scorer,omitempty"`
}

// CommandLimits limits a command. If it exceeds a limit, the command ends and its cell fails. Limits are
// not part of a result's identity: with a higher limit, a run continues from the checkpoint.
type CommandLimits struct {
	// Time of one execution. Absent: --task-timeout, after which it continues from its checkpoint. Not
	// with client_command.
	Time int `json:"time,omitzero" range:"[1,100000000]" unit:"seconds" also:"timeout seconds"`
	// Time for one answer of a client_command or scoring command, loading included. Absent: 600 and 300.
	Answer int `json:"answer,omitzero" range:"[1,100000000]" unit:"seconds" also:"request_timeout answer_timeout"`
	// Memory of all its processes, on Linux: enforced by the worker's own control group, else checked four
	// times a second.
	Memory int `json:"memory,omitzero" range:"[1,100000000]" unit:"MiB"`
	// Size of the files in its directory. Not with client_command.
	Files int `json:"files,omitzero" range:"[1,100000000]" unit:"MiB" also:"disk"`
	// Allows the network, otherwise denied on Linux with user namespaces.
	Network bool `json:"network,omitzero" default:"false"`
}

// Central reports whether the training is central, on records.
func (t *Training) Central() bool { return t.Algorithm == SGD }

// Client is the optimizer that sees the data.
type Client struct {
	Optimizer
	// Examples in a client's minibatch; the papers do not state it.
	Batch int `json:"batch,omitzero" default:"16" range:"[1,1000000]" when:"algorithm=fedavg" unit:"examples" also:"batch_size"`
	// Epochs of a client over its data in a round.
	Epochs int `json:"epochs,omitzero" default:"1" range:"[1,10000]" when:"algorithm=fedavg" unit:"epochs" also:"local_epochs num_epochs"`
	// Maximum number of minibatches of a client in a round. Absent: all of its epochs.
	Steps int `json:"steps,omitzero" range:"[1,1000000000]" when:"algorithm=fedavg" unit:"steps" also:"max_steps local_steps" source:"6 in Augenstein et al. 2020, table 9"`
	// L2 bound on every minibatch's gradient; not in the papers. With sgd, training.privacy.clip replaces it.
	GradientClip *float64 `json:"gradient_clip,omitempty" range:"(0,1e9]" also:"max_grad_norm clip"`
	// Probability that an element of a layer's output is dropped in training.
	Dropout float64 `json:"dropout,omitzero" default:"0" range:"[0,1)" source:"Zaremba et al. 2014, section 3"`
	// Decoupled weight decay w: before each step parameters are multiplied by 1 - learning rate x w.
	WeightDecay float64 `json:"weight_decay,omitzero" default:"0" range:"[0,1]" source:"Loshchilov and Hutter 2019, algorithm 2"`
	// FedProx's mu: mu/2 x the squared L2 distance from the round's model is added to each client's loss.
	Proximal float64 `json:"proximal,omitzero" default:"0" range:"[0,1e6]" when:"algorithm=fedavg" also:"mu fedprox" source:"Li et al. 2020, equation 2"`
	// Standard deviation of Gaussian noise on each element of a client's clipped update. It does
	// not count in epsilon.
	Noise float64 `json:"noise,omitzero" default:"0" range:"[0,1e6]" when:"algorithm=fedavg" also:"local_noise" source:"Orekondy et al. 2018, section 7"`
	// Compression of a client's update, after clip and noise. Without noise a clipped update stays within the clip.
	Compress *Compress `json:"compress,omitempty" when:"algorithm=fedavg" also:"compression"`
}

// Server is the optimizer that applies a round's mean update as the negative of a gradient: sgd at
// rate 1 is FedAvg, momentum is FedAvgM, fedadam is FedAdam of Reddi et al. 2021, and adam the same
// with the corrections of Kingma and Ba.
type Server struct{ Optimizer }

// Generator describes the server's training of a gan's generator, by gradient descent.
type Generator struct {
	// Steps after each round.
	Steps int `json:"steps" default:"6" range:"[0,1000000]" unit:"steps" source:"Augenstein et al. 2020, table 9"`
	// Images in a step.
	Batch int `json:"batch" default:"32" range:"[1,1000000]" unit:"images" also:"batch_size" source:"Augenstein et al. 2020, table 9"`
	// Learning rate.
	LearningRate float64 `json:"learning_rate" default:"0.005" range:"[1e-37,1e6]" also:"lr rate" source:"Augenstein et al. 2020, table 9"`
}

// Privacy is differential privacy at the level of users, as DP-FedAvg with fixed-size rounds (Thakkar et
// al. 2020, appendix A), or with sgd at the level of records, as DP-SGD (Abadi et al. 2016).
type Privacy struct {
	// Clip norm: L2 bound on each user's update, with sgd on the gradient of each record's mean loss
	// per token, over all tensors together.
	Clip float64 `json:"clip" required:"true" range:"(0,1e9]" also:"clip_norm clipping_norm l2_norm_clip" source:"0.2 in Thakkar et al. 2020, section 4.2.1"`
	// Noise multiplier z: the mean update (gradient) gets Gaussian noise of standard deviation z x clip /
	// cohort. 0: infinite epsilon.
	NoiseMultiplier float64 `json:"noise_multiplier" default:"0" range:"[0,1e6]" also:"noise sigma z" source:"1 in Thakkar et al. 2020, section 4.2.1"`
	// server, the default, adds the noise to the mean. devices: every device of the cohort adds z x clip /
	// sqrt(cohort) to its clipped update, also as recorded, and epsilon holds against observers of the sum
	// alone; needs fedavg and sampling: fixed-size.
	NoiseBy privacy.NoiseBy `json:"noise_by,omitzero" also:"distributed_noise local_noise"`
	// The delta of the (epsilon, delta) guarantee; required with noise.
	Delta float64 `json:"delta,omitzero" range:"(0,1)" source:"1e-7 in Thakkar et al. 2020, section 4.2.1"`
	// Conversion of Rényi divergences to epsilon, in the metrics of rounds and results and in the budget
	// of accountant rdp. classic, the default: Mironov 2017, as in the papers; improved: Canonne, Kamath
	// and Steinke 2020, never larger.
	Conversion privacy.Conversion `json:"conversion,omitzero"`
	// Accountant of epsilon_proved and the budget. tightest, the default: the smaller of privacy loss
	// distributions and Rényi divergences; rdp: Rényi divergences alone, as always in the metrics of rounds.
	Accountant privacy.Accountant `json:"accountant,omitzero"`
	// Source of noise and cohorts. seeded, the default: the experiment's seed, from which anyone can
	// compute the noise. secret: a key outside the results (--secret-key), required for any released model.
	Randomness privacy.Randomness `json:"randomness,omitzero"`
	// Fingerprint of the secret key, 32 hex digits, against another key. Submitted runs carry it.
	Key string `json:"key,omitzero"`
	// Clip norm that follows a quantile of the update norms: clip is the first, and noise_multiplier the
	// total of the noise on updates and on the quantile's count. Not with sgd.
	Adaptive *Adaptive `json:"adaptive,omitempty"`
	// DP-FTRL: correlated noise, of which each round cancels part of the earlier. noise_multiplier is that
	// of the independent noise behind it. Needs training.sampling: separated, a fixed clip norm and
	// fedavg. Absent coefficients are those of least noise on the last model at equal privacy, and are recorded.
	Mechanism *Mechanism `json:"mechanism,omitempty" also:"dp_ftrl matrix_mechanism correlated_noise" source:"Kairouz et al. 2021; McMahan et al. 2024"`
	// Ends the training before the round that would exceed it.
	Budget *Budget `json:"budget,omitempty" also:"epsilon target_epsilon"`
}

// EarlyStopping ends a training when the validation loss no longer falls.
type EarlyStopping struct {
	// Steps between measurements, rounded up to the end of a task (training.steps_per_task).
	Every int `json:"every" required:"true" range:"[1,1000000000]" unit:"steps"`
	// Measurements without a smaller loss.
	Patience int `json:"patience" default:"3" range:"[1,1000000]" unit:"measurements"`
}

// StopAt ends a training at a recall or a perplexity on the validation part. Exactly one of
// recall_at_1 and perplexity is given. The models are language models on words.
type StopAt struct {
	// Share of ordinary words that the model must guess first.
	RecallAt1 numbers.Probability `json:"recall_at_1,omitzero" range:"(0,1]" also:"recall accuracy value"`
	// Perplexity of ordinary words that the model must reach.
	Perplexity float64 `json:"perplexity,omitzero" range:"[1,1000000]" also:"ppl"`
	// Rounds between measurements, of sgd rounded up to the end of a task.
	Every int `json:"every" required:"true" range:"[1,1000000000]" unit:"rounds (sgd: steps)"`
}

// Adaptive makes the clip norm follow a quantile of the update norms.
type Adaptive struct {
	// Quantile of the update norms.
	Quantile float64 `json:"quantile" default:"0.5" range:"(0,1)" source:"Andrew et al. 2021, section 4"`
	// After every round the clip norm is multiplied by exp(-learning_rate x (share of clients at or below
	// it - quantile)).
	LearningRate float64 `json:"learning_rate" default:"0.2" range:"(0,10]" source:"Andrew et al. 2021, section 4"`
	// Standard deviation of the noise on the number of clients at or below the clip norm, by default
	// cohort / 20, above half the noise multiplier; none if that is 0.
	CountNoise float64 `json:"count_noise,omitzero" range:"(0,1e9]" unit:"clients" source:"Andrew et al. 2021, section 4"`
}

// Mechanism is the correlation of the noise of rounds. Absent numbers are chosen for the least noise on the
// last model at equal privacy, given the cell's rounds, separation and participations, and recorded.
type Mechanism struct {
	// Form of the correlation.
	Kind correlated.Kind `json:"kind" default:"blt"`
	// Buffers of the model's size.
	Buffers int `json:"buffers,omitzero" default:"3" range:"[1,10]" when:"kind=blt" source:"McMahan et al. 2024"`
	// Scales, one for each buffer, together at most 1.
	Scales []float64 `json:"scales,omitempty" range:"[0,1]" when:"kind=blt" also:"output_scale omega"`
	// Decays, one for each buffer.
	Decays []float64 `json:"decays,omitempty" range:"[0,1]" when:"kind=blt" also:"buf_decay theta"`
	// Bands of the matrix.
	Bands int `json:"bands,omitzero" default:"8" range:"[1,1000]" when:"kind=banded" source:"Choquette-Choo et al. 2023"`
	// Coefficients, one for each band, falling from 1.
	Coefficients []float64 `json:"coefficients,omitempty" range:"[0,1]" when:"kind=banded"`
}

// Budget is the maximum proved privacy cost of a training.
type Budget struct {
	// Limit of the proved epsilon (epsilon_proved).
	Epsilon float64 `json:"epsilon" required:"true" range:"(0,1e9]"`
	// The delta of the limit, by default training.privacy.delta.
	Delta float64 `json:"delta,omitzero" range:"(0,1)"`
}

// Checkpoints selects models to keep in addition to the measured ones and the last.
type Checkpoints struct {
	// Rounds between checkpoints.
	Every numbers.Share `json:"every" default:"5%" unit:"rounds or %"`
	// Newest checkpoints to keep.
	Keep int `json:"keep" default:"3" range:"[0,100000]" unit:"checkpoints"`
}

// Audit describes the measurements of a model, and after which rounds they are made.
type Audit struct {
	// Rounds between audits. Absent: the last round alone, which is always audited.
	Every numbers.Share `json:"every,omitzero" unit:"rounds or %"`
	// Further rounds to audit, of sgd rounded up to the end of a task.
	At []numbers.Share `json:"at,omitempty" unit:"rounds or %"`
	// Deliberate fault of a federated training with noise: a positive control for privacy audits. The
	// accountant ignores it; printed epsilons are marked as invalid.
	Control privacy.Control `json:"control,omitempty"`
	// Methods are the fields of the audits.
	Methods Methods
	// Gates on the finished model: each field is the last value that passes. Beyond one the command exits
	// with status 4.
	FailIf *FailIf `json:"fail_if,omitempty" also:"gates limits"`
}

// FailIf holds limits for the finished model's memorization and utility. Each is the last value
// that passes; controls and never-inserted canaries do not count.
type FailIf struct {
	// Gates are the limits of the audits.
	Gates Gates
}
