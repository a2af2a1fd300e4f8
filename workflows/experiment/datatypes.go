package experiment

import (
	"cmp"

	"coalmine/internal/numbers"
	"coalmine/tasks/datasets/faults"
	"coalmine/tasks/datasets/filters"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/devices"
	"coalmine/tasks/selection"
)

// The data block of a file. types.go contains the other blocks, and explains the tags.

// Data describes the texts or images to read, and their division among users.
type Data struct {
	// JSON lines with "user" and "text" (images: "user", "label" and "pixels" or "image") or another
	// data.form, plain, .gz, .zst, .xz or .lzma; a directory of such files, or of texts by user; either
	// also in S3: s3://bucket/key, s3://bucket/prefix/. A relative path starts at the working directory,
	// else at the experiment file's.
	Source string `json:"source" required:"true" also:"path file dataset name"`
	// SHA-256 of the source, 64 hex digits; of several files, that of their SHA-256s, one a line. Detects
	// a changed source; submitted runs carry it.
	SHA256 string `json:"sha256,omitempty"`
	// Form of the files, needed for CSV and TSV, else detected from the content. stackexchange reads the
	// sentences of posts or comments, tff a split.
	Form forms.Form `json:"form,omitempty" also:"format type reader"`
	// Example of a text file: a line (the default), a paragraph ended by empty lines, or the file.
	Unit forms.Unit `json:"unit,omitempty" when:"form=texts absent"`
	// Names of columns, or fields of JSON lines, that differ from user, text, time, score, tags, group and
	// target or the form's.
	Columns *Columns `json:"columns,omitempty" also:"fields"`
	// Split to train on, of tff or data with data.columns.split. Absent: train.
	Split string `json:"split,omitempty"`
	// Splits of the files, in their order. Absent: detected from subdirectories or names such as
	// train-00000-of-00002.parquet; submitted runs that read splits carry them.
	FileSplits []string `json:"file_splits,omitempty"`
	// Version of the rules of reading (docs/data.md). Absent: 2 if that makes a difference; submitted runs
	// then carry it.
	ReadingRules text.Rules `json:"reading_rules,omitzero" range:"[1,2]" also:"rules exif orientation variation_selectors"`
	// Faulty records: stop refuses them before anything runs, with file and place; skip leaves out and counts them.
	OnError source.OnError `json:"on_error,omitzero" default:"stop" also:"errors on_fault"`
	// Level of reading: lower-cased words and punctuation marks; bytes of UTF-8, or tokens of
	// data.tokenizer (subword), counted where fields say words; or images, counted as a label and width x
	// height x channels pixels.
	Level text.Level `json:"level,omitzero" default:"word" source:"byte: Carlini et al. 2019; Chen et al. 2019"`
	// File tokenizer.json of the tokenizers library (byte-level BPE or Unigram), found as data.source. Its
	// tokens are the vocabulary.
	Tokenizer string `json:"tokenizer,omitzero" when:"level=subword" also:"tokenizer_file" source:"Sennrich et al. 2016; Kudo 2018"`
	// SHA-256 of the tokenizer's file, 64 hex digits. Submitted runs carry it.
	TokenizerSHA256 string `json:"tokenizer_sha256,omitempty" when:"level=subword"`
	// Each line has two texts of one vocabulary, "text" and "target", each cut at data.sequence. The model
	// is an encoder-decoder of two stacks with the model block's layers.
	Pairs bool `json:"pairs,omitzero" default:"false" also:"translation parallel seq2seq" source:"Carlini et al. 2019, section 6.4"`
	// Predicted label: a line's "score" from 1 to 5, rounded to halves; or those of its "tags" (or
	// "labels") that data.tags lists, of images in place of a class. Absent: words or classes.
	Label source.Label `json:"label,omitempty" also:"predict" source:"Orekondy et al. 2018, section 5.1"`
	// Tags to predict.
	Tags []string `json:"tags,omitempty" when:"label=tags" also:"classes"`
	// Order in time of each user's examples: that of the lines (source), or by their field "time", an RFC
	// 3339 date or a number, with data.users.words: 0. Absent: none; lines need not follow time.
	Order source.Order `json:"order,omitempty" also:"sort chronological time"`
	// Shape of the images; others are refused.
	Image *Image `json:"image,omitempty" default:"{}" when:"level=image" also:"images shape image_size"`
	// Length at which examples are cut, by default 20 words, 100 bytes or 32 tokens.
	Sequence int `json:"sequence,omitzero" range:"[1,1000]" when:"level=word byte subword" unit:"words (byte level: bytes; subword: tokens)" also:"sequence_length length max_length" source:"20 words in Thakkar et al. 2020, section 4.1"`
	// Faults planted in all parts as the data are read. Users, parts and vocabulary are those without faults.
	Faults []Fault `json:"faults,omitempty" also:"bugs fault bug" source:"Augenstein et al. 2020, sections 5 and 6"`
	// The most frequent words of the training part, or the tokenizer's tokens; fixed at the byte level.
	Vocabulary Vocabulary `json:"vocabulary" also:"vocab vocab_size"`
	// Users balanced to one size, or as in the data.
	Users Users `json:"users"`
	// by-user keeps users' examples; iid shuffles all, canaries included, and refills users of the same sizes.
	Partition population.Partitioning `json:"partition" default:"by-user" source:"Thakkar et al. 2020, section 4.1"`
	// Part that measures utility, without canaries: drawn by example before users are balanced, or a split.
	Test TestPart `json:"test"`
	// Part for tuning and early stopping, drawn like the test part.
	Validation ValidationPart `json:"validation"`
	// Probability that a training example is used. Parts and vocabulary are those of the whole; canaries
	// are inserted afterwards.
	Share numbers.Probability `json:"share,omitzero" range:"(0,1]" source:"5% in Carlini et al. 2019, section 7.2"`
	// Removes personal text from the training part, after canaries are inserted, and reports
	// removed canaries.
	Sanitize *Sanitize `json:"sanitize,omitempty" source:"Carlini et al. 2019, section 9.2"`
	// Removes sentences on which two models of disjoint halves of the data disagree, after canaries are
	// inserted and sanitized, and reports removed canaries.
	Disagreement *Disagreement `json:"disagreement,omitempty" when:"training.algorithm=sgd" source:"Carlini et al. 2019, section 9.2"`
	// Selects the training data. Give words, examples or users.
	Select *Select `json:"select,omitempty" source:"Augenstein et al. 2020, section 2"`
	// Second source, which data.devices.defence mixes into users' examples.
	Background *SecondSource `json:"background,omitempty" source:"Orekondy et al. 2018, section 7.1"`
	// Gives every user two devices that train: an anonymous one with private examples, and an adversary's
	// with other (prior) examples of the user.
	Devices *Devices `json:"devices,omitempty" also:"deanonymization shadow" source:"Orekondy et al. 2018, sections 5.2 and 6"`
	// Balanced users, drawn at random, that never train, for membership tests.
	HeldOutUsers Part `json:"held_out_users"`
	// Limits of the input; part of a result's identity. Absent: the defaults.
	Limits *Limits `json:"limits,omitempty"`
}

// Columns are names of columns, or of fields of JSON lines.
type Columns struct {
	// User of the example, a text or number.
	User string `json:"user,omitempty" also:"author client"`
	// Text of the example.
	Text string `json:"text,omitempty" also:"body content"`
	// Target of a pair, with data.pairs.
	Target string `json:"target,omitempty"`
	// Time of the example, with data.order: time.
	Time string `json:"time,omitempty" also:"date created"`
	// Score of the example, with data.label: score.
	Score string `json:"score,omitempty" also:"stars rating"`
	// Tags of the example, with data.label: tags: a list or a text, "<a><b>", "a|b" or "a,b".
	Tags string `json:"tags,omitempty" also:"labels"`
	// Group of the example, with data.devices.prior: groups.
	Group string `json:"group,omitempty" also:"album document thread"`
	// Split of the example. Absent: none, or the form's own.
	Split string `json:"split,omitempty" also:"split_name subset"`
}

// Fault is planted in some of the data. Users or examples are given, or both: then it affects some
// of the examples of some of the users.
type Fault struct {
	// Kind of fault.
	Fault faults.Name `json:"fault" required:"true" also:"kind bug"`
	// Probability that a user has the fault. Absent: all. Give users, examples or both.
	Users numbers.Probability `json:"users,omitzero" range:"(0,1]" source:"50% in Augenstein et al. 2020, section 6"`
	// Probability that an example of these users is hit. Absent: all.
	Examples numbers.Probability `json:"examples,omitzero" range:"(0,1]" source:"1%, 10% and 100% in Augenstein et al. 2020, appendix B.3"`
	// Length of a truncated text.
	Length int `json:"length,omitzero" default:"40" range:"[1,1000000]" when:"fault=truncate" unit:"characters"`
}

// Limits reject input that is not a data set. They are part of a result's identity.
type Limits struct {
	// Longest line of a source.
	Line int `json:"line" default:"1048576" range:"[1024,67108864]" unit:"bytes"`
	// Decompressed size of a source.
	Text int64 `json:"text" default:"274877906944" range:"[1024,1125899906842624]" unit:"bytes"`
	// Largest growth of a compressed file, as a multiple of its size, after the first 16 MiB.
	Ratio int `json:"ratio" default:"200" range:"[2,1000000]"`
}

// Image is the common shape of the images.
type Image struct {
	// Width of an image.
	Width int `json:"width" default:"28" range:"[1,12288]" unit:"pixels" source:"LeCun et al. 1998 (MNIST)"`
	// Height of an image. width x height x channels is at most 12288.
	Height int `json:"height" default:"28" range:"[1,12288]" unit:"pixels" source:"LeCun et al. 1998 (MNIST)"`
	// Channels: 1 (grey) or 3 (red, green, blue).
	Channels int `json:"channels" default:"1" range:"[1,3]" unit:"channels" also:"colors colours"`
	// Classes; labels are whole numbers from 0 to classes - 1.
	Classes int `json:"classes" default:"10" range:"[1,256]" unit:"classes" also:"labels num_classes"`
	// Allows lines without a label. Only for a gan, or with data.select.examples: labelled.
	Unlabelled bool `json:"unlabelled,omitzero" default:"false" source:"Augenstein et al. 2020, task T5"`
}

// Vocabulary consists of the most frequent words of the training part. At the byte level it is fixed.
type Vocabulary struct {
	// Words besides the special tokens; others read as <unk>. At the subword level the number of the
	// tokenizer's tokens.
	Size int `json:"size,omitzero" default:"10000" range:"[2,10000000]" when:"level=word subword" unit:"words" source:"Thakkar et al. 2020, section 4.1"`
}

// Sanitize removes text that matches patterns of personal text. At least one pattern is given.
type Sanitize struct {
	// Named patterns to remove. One or a list.
	Patterns []filters.Pattern `json:"patterns,omitempty"`
	// Regular expressions (RE2) to remove. One or a list.
	Own []string `json:"own,omitempty"`
	// match masks a match; sentence removes its sentence.
	Remove filters.Removal `json:"remove" default:"match"`
}

// Disagreement removes the sentences on which two models disagree. Each trains on half of the
// records like the cell, except for the number of steps.
type Disagreement struct {
	// Largest difference of a kept sentence's mean log-perplexities under the two models.
	Threshold float64 `json:"threshold" required:"true" range:"(0,1000]" unit:"nats a token"`
	// Steps of each model, by default half the training's, rounded up: as many epochs.
	Steps int `json:"steps,omitzero" range:"[1,1000000000]" unit:"steps"`
}

// Select selects the training data. Exactly one of words, examples and users is given; users,
// and misclassified or correct examples, go by the predictions of prepare.classifier.
type Select struct {
	// Words unknown to a primary model, each an example spelled in bytes. Only with data.level: byte.
	Words *SelectWords `json:"words,omitempty" source:"Augenstein et al. 2020, section 5; Chen et al. 2019"`
	// Examples that prepare.classifier gets wrong (misclassified) or right (correct), random examples,
	// images without or with a label, or texts unlikely under prepare.language_model.
	Examples selection.Criterion `json:"examples,omitzero" source:"Augenstein et al. 2020, table 1 and appendix C.4"`
	// Selected examples that a user needs to take part, by default 5; of random, unlabelled and labelled 1.
	AtLeast int `json:"at_least,omitzero" range:"[1,1000000]" unit:"examples" source:"Augenstein et al. 2020, appendix C.4"`
	// Users by the share of their examples that prepare.classifier gets right, in percentiles of the data
	// without faults. Give below or above.
	Users *SelectUsers `json:"users,omitempty" source:"Augenstein et al. 2020, appendix C.3"`
	// Probability that an example is selected. Give share or per_user.
	Share numbers.Probability `json:"share,omitzero" range:"(0,1)" when:"examples=random"`
	// Examples selected of each user, or all.
	PerUser int `json:"per_user,omitzero" range:"[1,1000000]" when:"examples=random" unit:"examples"`
	// Minimum surprise of an unlikely example: its mean loss under prepare.language_model, minus its loss
	// under prepare.second_language_model, if any. Give above or percentile.
	Above *float64 `json:"above,omitempty" range:"[-1000,1000]" when:"examples=unlikely" unit:"nats a token"`
	// Percentile of all users' surprises from which on examples are unlikely.
	Percentile numbers.Probability `json:"percentile,omitzero" range:"(0,1)" when:"examples=unlikely"`
}

// Devices divide each user's examples into private ones and the prior ones that an adversary knows.
type Devices struct {
	// Prior examples: random; the first in time (chronological, with data.order); or whole groups, such as
	// albums, by a field "group" of every line.
	Prior devices.Prior `json:"prior" default:"random" source:"Orekondy et al. 2018, section 5.2.2"`
	// Size of the prior: a share of the examples, the others being private; or a number, with half of the
	// examples private and the rest unused.
	Size numbers.Share `json:"size" default:"50%" unit:"examples or %" source:"Orekondy et al. 2018, section 5.3"`
	// Examples that a user needs to take part. Absent: all must have enough to divide.
	AtLeast int `json:"at_least,omitzero" range:"[1,1000000000]" unit:"examples" also:"min_examples" source:"100 to 1000 in Orekondy et al. 2018, section 5.1"`
	// Groups that a user needs to take part. Absent: all must have two.
	AtLeastGroups int `json:"at_least_groups,omitzero" range:"[2,1000000000]" when:"prior=groups" unit:"groups" also:"min_groups"`
	// Share of users without an adversary's device (an open world).
	Unseen numbers.Probability `json:"unseen,omitzero" range:"(0,1)" also:"open_world" source:"Orekondy et al. 2018, section 6.1.2"`
	// Share of users from whom an attack learns, without naming them.
	HeldOut numbers.Probability `json:"held_out,omitzero" range:"(0,1)" source:"1/3 in Orekondy et al. 2018, section 6.1.2"`
	// Defence: anonymous devices mix examples of data.background into their private ones. Give
	// replace or augment.
	Defence *Defence `json:"defence,omitempty" also:"defense mitigation mix" source:"Orekondy et al. 2018, section 7.1"`
	// Second source, of which each user is a profile: hand-made examples of the adversary's target, on an
	// adversary's device.
	Profiles *SecondSource `json:"profiles,omitempty" source:"Orekondy et al. 2018, section 5.2.2 (iii)"`
	// Shuffles the examples of all devices, which keep their sizes: a control.
	IID bool `json:"iid,omitzero" default:"false" source:"Orekondy et al. 2018, section 6.1.1"`
}

// SecondSource is a source in addition to data.source.
type SecondSource struct {
	// As data.source.
	Source string `json:"source" required:"true" also:"path file dataset"`
	// As data.sha256.
	SHA256 string `json:"sha256,omitempty"`
	Format
}

// Format describes how to read a second source. If neither field is given, data.form and
// data.columns apply.
type Format struct {
	// Form of the files. Absent, with columns also absent: data.form; else detected from the content.
	Form forms.Form `json:"form,omitempty" also:"format type reader"`
	// Names of the source's columns. Absent, with form also absent: data.columns.
	Columns *SecondColumns `json:"columns,omitempty" also:"fields"`
}

// SecondColumns are names of columns, or of fields of JSON lines, of a second source.
type SecondColumns struct {
	// User of the example, a text or number.
	User string `json:"user,omitempty" also:"author client"`
	// Text of the example.
	Text string `json:"text,omitempty" also:"body content"`
	// Target of a pair, with data.pairs.
	Target string `json:"target,omitempty"`
	// Score of the example, with data.label: score.
	Score string `json:"score,omitempty" also:"stars rating"`
	// Tags of the example, with data.label: tags.
	Tags string `json:"tags,omitempty" also:"labels"`
}

// Defence mixes a background into private examples. Exactly one of replace and augment is given.
type Defence struct {
	// Share of private examples that random ones of the background replace: bkg-repl.
	Replace numbers.Probability `json:"replace,omitzero" range:"(0,1]" source:"0.25 to 1 in Orekondy et al. 2018, section 7.2"`
	// Random examples of the background to add, as a multiple of the private ones: rand-aug.
	Augment float64 `json:"augment,omitzero" range:"(0,100]" source:"0.5 to 2 in Orekondy et al. 2018, section 7.2"`
	// Modes of the background, by k-means over pixels or weighted words; each device gets examples of one
	// random mode: mm-aug. Only with augment. Absent: of all modes.
	Modes int `json:"modes,omitzero" range:"[2,65536]" unit:"modes" also:"clusters topics" source:"100 to 500 in Orekondy et al. 2018, section 7.1"`
}

// SelectUsers selects users by their share of examples that prepare.classifier predicts correctly.
// Percentiles are those of the shares in the data without planted faults. Exactly one of the two is given;
// users at the percentile are selected.
type SelectUsers struct {
	// Users at or below this percentile.
	Below numbers.Probability `json:"below,omitzero" range:"(0,1)"`
	// Users at or above this percentile.
	Above numbers.Probability `json:"above,omitzero" range:"(0,1)"`
}

// SelectWords selects words. Their sentences are read at the word level, and faults are planted there.
type SelectWords struct {
	// Vocabulary of the primary model: the training part's most frequent words without faults.
	Outside int `json:"outside" required:"true" range:"[1,10000000]" unit:"words" also:"vocabulary size" source:"10,000 in Augenstein et al. 2020, appendix B.2"`
	// data.sequence of the primary model; data.sequence of this experiment cuts words.
	Sequence int `json:"sequence" default:"20" range:"[1,1000]" unit:"words"`
}

// StepsOf returns the number of steps of each of the two models, if the training has this many rounds.
func (d *Disagreement) StepsOf(rounds int) int { return cmp.Or(d.Steps, (rounds+1)/2) }

// Users are balanced to one size, or stay as in the data.
type Users struct {
	// Words of a balanced user, after the cut: smaller users are dropped, larger ones split, remainders
	// discarded. 0, the default of images: users as in the data.
	Words int `json:"words" default:"2000" range:"[0,1000000000]" unit:"words (byte level: bytes)" source:"Thakkar et al. 2020, section 4.1; 0: Augenstein et al. 2020"`
}

// TestPart is the part of the examples on which utility is measured.
type TestPart struct {
	// Probability that an example is held out. 0 with a split.
	Fraction numbers.Probability `json:"fraction" default:"10%" range:"[0,1)"`
	// Split that is the test part, perhaps of other users. Absent: a fraction is drawn.
	Split string `json:"split,omitempty" source:"Thakkar et al. 2020, section 4.1"`
}

// ValidationPart is the part of the examples by which trainings are tuned and stopped.
type ValidationPart struct {
	// Probability that an example is held out.
	Fraction numbers.Probability `json:"fraction" default:"0" range:"[0,1)"`
	// Split that is the validation part. Absent: a fraction is drawn.
	Split string `json:"split,omitempty"`
}

// Exists reports whether there is a validation part.
func (p *ValidationPart) Exists() bool { return p.Split != "" || !p.Fraction.IsZero() }

// Part is a share of the data that is kept from training.
type Part struct {
	// Probability that a user is held out.
	Fraction numbers.Probability `json:"fraction" default:"0" range:"[0,1)"`
}
