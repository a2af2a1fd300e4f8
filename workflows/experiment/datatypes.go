package experiment

import (
	"cmp"

	"coalmine/internal/numbers"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/patterns"
	"coalmine/tasks/devices"
	"coalmine/tasks/selection"
)

// The data block of a file, as types.go has the others: it says what the tags mean.

// Data says which text is read, or which images, and how they are divided among users.
type Data struct {
	// Source of the data: a file of JSON lines with "user" and "text", of images with
	// "user", "label" and "pixels" or "image", or in another form of texts (data.form), plain,
	// .gz, .zst, .xz or .lzma; a directory of such files, or of text files, a folder or a file
	// for each user; or either in S3, as s3://bucket/key or s3://bucket/prefix/. A relative path
	// starts at the working directory, else at the experiment file's.
	Source string `json:"source" required:"true" also:"path file dataset name"`
	// SHA256 of the source, 64 hex digits; of several files, that of their
	// SHA-256s, one a line. Given in the file, it guards against a source that has
	// changed; a submitted run always carries it.
	SHA256 string `json:"sha256,omitempty"`
	// Form of the source's files, where their content does not tell it: CSV and TSV are never
	// told. stackexchange gives a text for each sentence of a post or comment; tff reads a split.
	Form forms.Form `json:"form,omitempty" also:"format type reader"`
	// Unit is what of a text file is an example: a line, a paragraph, which empty lines end, or a
	// whole file. Absent: a line.
	Unit forms.Unit `json:"unit,omitempty" when:"form=texts absent"`
	// Columns that are not called user, text, time, score, tags, group and target, or as the form
	// calls them. Absent: they are.
	Columns *Columns `json:"columns,omitempty" also:"fields"`
	// Split that is trained on, of data that come in splits: a database of TensorFlow
	// Federated, or a form with data.columns.split. Absent: train. Of the others those are
	// read that data.test.split and data.validation.split name.
	Split string `json:"split,omitempty"`
	// FileSplits are the splits of the source's files, in their order. Absent: subdirectories,
	// or names such as train-00000-of-00002.parquet, tell them, where anything does; a submitted
	// run that reads splits carries them.
	FileSplits []string `json:"file_splits,omitempty"`
	// ReadingRules is the version of the rules by which texts and images are read: 1, or 2, which
	// drops variation selectors and all other default-ignorable characters of texts, and turns
	// images as their EXIF orientation says. It holds for all sources of the cell and for formats
	// of canaries. Absent: 2 if it reads one of these otherwise, and a submitted run then carries
	// it; else both read the same.
	ReadingRules datasets.Rules `json:"reading_rules,omitzero" range:"[1,2]" also:"rules exif orientation variation_selectors"`
	// OnError says what becomes of a record that is at fault. stop ends it before anything
	// runs, with file and place; skip leaves the record out, and counts it in the results.
	OnError datasets.OnError `json:"on_error,omitzero" default:"stop" also:"errors on_fault"`
	// Level at which the text is read: word takes lower-cased words and punctuation
	// marks; byte the 256 bytes of its UTF-8, capital letters as they are, and all
	// that is counted in words is then counted in bytes. image takes images in place of
	// texts: what is counted in words are then labels and pixels, of which an image has
	// 1 + width x height x channels.
	Level datasets.Level `json:"level,omitzero" default:"word" source:"byte: Carlini et al. 2019; Chen et al. 2019"`
	// Pairs says that each line has two texts, "text" and "target", such as a sentence
	// and its translation. The model is then an encoder-decoder: layers of the kind, number
	// and width that the model block gives read the text, and others, which begin with
	// their state, predict the target. Both texts share one vocabulary, and each is cut
	// at data.sequence.
	Pairs bool `json:"pairs,omitzero" default:"false" also:"translation parallel seq2seq" source:"Carlini et al. 2019, section 6.4"`
	// Label is what a regressor or a tagger predicts of each text: score, the number "score"
	// of its line, from 1 to 5 and rounded to halves; or tags, those of its "tags" (or
	// "labels"), a list, that data.tags has. Images may have tags, too, which a cnn-tagger
	// predicts; they have no class then. Absent: nothing, and a language model predicts
	// words, a cnn the class of an image.
	Label datasets.Label `json:"label,omitempty" also:"predict" source:"Orekondy et al. 2018, section 5.1"`
	// Tags that are predicted of texts or images.
	Tags []string `json:"tags,omitempty" when:"label=tags" also:"classes"`
	// Order of each user's examples: source is that of the lines; time that of a field
	// "time" which every line then has, a date of RFC 3339 or a number. time keeps users
	// as they are (data.users.words: 0). Absent: source, and nothing is said about time.
	Order datasets.Order `json:"order,omitempty" also:"sort chronological time"`
	// Image is the shape of the images. A source with any other is refused.
	Image *Image `json:"image,omitempty" default:"{}" when:"level=image" also:"images shape image_size"`
	// Sequence is the length at which sentences are cut: by default 20 words or, at
	// the byte level, 100 bytes, about as much English text.
	Sequence int `json:"sequence,omitzero" range:"[1,1000]" when:"level=word byte" unit:"words (byte level: bytes)" also:"sequence_length length max_length" source:"20 words in Thakkar et al. 2020, section 4.1"`
	// Faults are planted in the data when they are read, in all parts alike: a list of
	// blocks, such as `{fault: join-words, examples: 10%}`. Users, examples and parts stay
	// what they are, and so does the vocabulary: it is that of the data without faults.
	// Absent: none.
	Faults []Fault `json:"faults,omitempty" also:"bugs fault bug" source:"Augenstein et al. 2020, sections 5 and 6"`
	// Vocabulary is made of the most frequent words of the training part. At the
	// byte level it is fixed.
	Vocabulary Vocabulary `json:"vocabulary" also:"vocab vocab_size"`
	// Users are balanced to one size, or stay as they are.
	Users Users `json:"users"`
	// Partition of the examples: by-user keeps each user's own; iid shuffles all
	// examples, canaries included, and refills users of the same size, or of the sizes
	// that they have where they stay as they are.
	Partition datasets.Partitioning `json:"partition" default:"by-user" source:"Thakkar et al. 2020, section 4.1"`
	// Test part, drawn by example before users are balanced, or a split of the data. It
	// never holds a canary; utility is measured on it.
	Test TestPart `json:"test"`
	// Validation part, drawn like the test part, for tuning and early stopping.
	Validation ValidationPart `json:"validation"`
	// Share of the training part that is used: each of its examples has this
	// probability. Overtraining on little data is `5%`. Absent: all of it. The parts and
	// the vocabulary are those of the whole, and canaries are inserted afterwards.
	Share numbers.Probability `json:"share,omitzero" range:"(0,1]" source:"5% in Carlini et al. 2019, section 7.2"`
	// Sanitize removes what has the form of personal text before the training, after the
	// canaries are inserted, and reports which of them it has caught. Absent or null:
	// nothing is removed.
	Sanitize *Sanitize `json:"sanitize,omitempty" source:"Carlini et al. 2019, section 9.2"`
	// Disagreement removes the sentences on which two models disagree that were trained
	// on disjoint halves of the data, after canaries are inserted and sanitized, and
	// reports which of them it has removed. Absent or null: nothing is removed.
	Disagreement *Disagreement `json:"disagreement,omitempty" when:"training.algorithm=sgd" source:"Carlini et al. 2019, section 9.2"`
	// Select what of the data is trained on, as a modeler would choose what to look at.
	// Absent or null: all of it.
	Select *Select `json:"select,omitempty" source:"Augenstein et al. 2020, section 2"`
	// Background is a second source, whose examples data.devices.defence mixes into those of
	// the users. It is read as the data are: at the same level, in the same form unless it
	// says its own. Its users play no part. Absent or null: none.
	Background *SecondSource `json:"background,omitempty" source:"Orekondy et al. 2018, section 7.1"`
	// Devices give every user two devices in place of one: an anonymous one with private
	// examples, and one of an adversary who knows other examples of the user. Both train.
	// Absent or null: users train.
	Devices *Devices `json:"devices,omitempty" also:"deanonymization shadow" source:"Orekondy et al. 2018, sections 5.2 and 6"`
	// HeldOutUsers are balanced users that never train, drawn at random; they
	// serve membership tests.
	HeldOutUsers Part `json:"held_out_users"`
	// Limits stop input that is no data set. Absent: the defaults.
	Limits *Limits `json:"limits,omitempty"`
}

// Columns are names of columns, or of fields of JSON lines.
type Columns struct {
	// User whose example it is. Numbers are taken as text.
	User string `json:"user,omitempty" also:"author client"`
	// Text of the example.
	Text string `json:"text,omitempty" also:"body content"`
	// Target of a pair, with data.pairs.
	Target string `json:"target,omitempty"`
	// Time of the example, with data.order: time.
	Time string `json:"time,omitempty" also:"date created"`
	// Score of the example, with data.label: score.
	Score string `json:"score,omitempty" also:"stars rating"`
	// Tags of the example, with data.label: tags: a list, or a text such as "<a><b>", "a|b"
	// or "a,b".
	Tags string `json:"tags,omitempty" also:"labels"`
	// Group of the user's examples that it belongs to, with data.devices.prior: groups.
	Group string `json:"group,omitempty" also:"album document thread"`
	// Split that the example is of, such as train or test. Absent: there is none, or the form
	// has splits of its own.
	Split string `json:"split,omitempty" also:"split_name subset"`
}

// Fault is planted in some of the data. Users or examples are given, or both: then some of
// the examples of some of the users are hit.
type Fault struct {
	// Fault is what goes wrong.
	Fault datasets.Fault `json:"fault" required:"true" also:"kind bug"`
	// Users are the share of the users that have the fault, each with this probability.
	// Absent: all of them.
	Users numbers.Probability `json:"users,omitzero" range:"(0,1]" source:"50% in Augenstein et al. 2020, section 6"`
	// Examples are the share of the examples that are hit, each with this probability.
	// Absent: all of the users that have the fault.
	Examples numbers.Probability `json:"examples,omitzero" range:"(0,1]" source:"1%, 10% and 100% in Augenstein et al. 2020, appendix B.3"`
	// Length is what is left of a text that is truncated.
	Length int `json:"length,omitzero" default:"40" range:"[1,1000000]" when:"fault=truncate" unit:"characters"`
}

// Limits stop input that is no data set. They are a part of a result's
// identity.
type Limits struct {
	// Line is the longest line of a source.
	Line int `json:"line" default:"1048576" range:"[1024,67108864]" unit:"bytes"`
	// Text is the most that a source may hold, decompressed.
	Text int64 `json:"text" default:"274877906944" range:"[1024,1125899906842624]" unit:"bytes"`
	// Ratio is how many times its size a compressed file may grow, after the first
	// 16 MiB: what grows more may be a decompression bomb.
	Ratio int `json:"ratio" default:"200" range:"[2,1000000]"`
}

// Image is the shape of the images, which is that of all of them.
type Image struct {
	// Width of an image.
	Width int `json:"width" default:"28" range:"[1,12288]" unit:"pixels" source:"LeCun et al. 1998 (MNIST)"`
	// Height of an image. Width x height x channels are at most 12288, as 64 x 64 in colour.
	Height int `json:"height" default:"28" range:"[1,12288]" unit:"pixels" source:"LeCun et al. 1998 (MNIST)"`
	// Channels of a pixel: 1, grey, or 3: red, green and blue.
	Channels int `json:"channels" default:"1" range:"[1,3]" unit:"channels" also:"colors colours"`
	// Classes are the labels: whole numbers from 0 to one less than this.
	Classes int `json:"classes" default:"10" range:"[1,256]" unit:"classes" also:"labels num_classes"`
	// Unlabelled says that lines may have no label. Only for a gan, which learns without, or
	// with data.select.examples: labelled.
	Unlabelled bool `json:"unlabelled,omitzero" default:"false" source:"Augenstein et al. 2020, task T5"`
}

// Vocabulary is made of the most frequent words of the training part. At the
// byte level it is fixed.
type Vocabulary struct {
	// Size of the vocabulary without its special tokens. Every other word is
	// read as <unk>.
	Size int `json:"size,omitzero" default:"10000" range:"[2,10000000]" when:"level=word" unit:"words" source:"Thakkar et al. 2020, section 4.1"`
}

// Sanitize removes what has the form of personal text. At least one pattern is given.
type Sanitize struct {
	// Patterns that have a name: card numbers, social security numbers, phone numbers,
	// mail addresses. One or a list.
	Patterns []patterns.Pattern `json:"patterns,omitempty"`
	// Own patterns: regular expressions in the syntax of RE2. One or a list.
	Own []string `json:"own,omitempty"`
	// Remove what was found, of which a mask is left, or the whole sentence.
	Remove datasets.Removal `json:"remove" default:"match"`
}

// Disagreement removes the sentences on which two models disagree. Each trains on half of
// the records as the cell does, but for the number of steps.
type Disagreement struct {
	// Threshold: a sentence is removed if its mean log-perplexities under the two models
	// differ by more.
	Threshold float64 `json:"threshold" required:"true" range:"(0,1000]" unit:"nats a token"`
	// Steps of each of the two models: by default half of those of the training,
	// rounded up, so that a half is gone through as often as the whole.
	Steps int `json:"steps,omitzero" range:"[1,1000000000]" unit:"steps"`
}

// Select chooses what is trained on. Exactly one of words, examples and users is given; users,
// and misclassified or correct examples, go by what prepare.classifier predicts.
type Select struct {
	// Words that a primary model does not know: every one of them is an example of its own,
	// spelled in bytes. Only with data.level: byte.
	Words *SelectWords `json:"words,omitempty" source:"Augenstein et al. 2020, section 5; Chen et al. 2019"`
	// Examples that the classifier gets wrong, misclassified, or right, correct; random ones;
	// images that are unlabelled, or labelled; or texts that are unlikely under
	// prepare.language_model.
	Examples selection.Criterion `json:"examples,omitzero" source:"Augenstein et al. 2020, table 1 and appendix C.4"`
	// AtLeast so many of these examples a user must have to take part; by default 5, of
	// random, unlabelled and labelled ones 1.
	AtLeast int `json:"at_least,omitzero" range:"[1,1000000]" unit:"examples" source:"Augenstein et al. 2020, appendix C.4"`
	// Users for whom the classifier works badly or well.
	Users *SelectUsers `json:"users,omitempty" source:"Augenstein et al. 2020, appendix C.3"`
	// Share of the examples that are selected, each with this probability. Of random ones
	// one of share and per_user is given.
	Share numbers.Probability `json:"share,omitzero" range:"(0,1)" when:"examples=random"`
	// PerUser so many examples of each user are selected, all of a user who has fewer.
	PerUser int `json:"per_user,omitzero" range:"[1,1000000]" when:"examples=random" unit:"examples"`
	// Above this surprise examples are unlikely: the log-perplexity under
	// prepare.language_model, the mean loss of a token; with prepare.second_language_model less
	// that under the second. One of above and percentile is given; what is at either is
	// selected.
	Above *float64 `json:"above,omitempty" range:"[-1000,1000]" when:"examples=unlikely" unit:"nats a token"`
	// Percentile of the surprises of all the users' examples, such as 90%, from which on
	// examples are unlikely.
	Percentile numbers.Probability `json:"percentile,omitzero" range:"(0,1)" when:"examples=unlikely"`
}

// Devices divide each user's examples into private ones and the prior ones that an
// adversary knows.
type Devices struct {
	// Prior examples are drawn at random, or are the first ones, chronological, where
	// data.order says that a user's examples stand in the order of time. groups draws whole
	// groups of a user's examples, such as albums or documents, which the field "group" of
	// every line then names: no group is on both devices.
	Prior devices.Prior `json:"prior" default:"random" source:"Orekondy et al. 2018, section 5.2.2"`
	// Size of the prior: a share of the user's examples, of which the others are private;
	// or a number of them. With a number half of the examples are private whatever it is,
	// and those that are neither are on no device.
	Size numbers.Share `json:"size" default:"50%" unit:"examples or %" source:"Orekondy et al. 2018, section 5.3"`
	// AtLeast so many examples a user must have to take part. Absent: everyone does, and
	// must have enough to be divided.
	AtLeast int `json:"at_least,omitzero" range:"[1,1000000000]" unit:"examples" also:"min_examples" source:"100 to 1000 in Orekondy et al. 2018, section 5.1"`
	// AtLeastGroups so many groups a user must have to take part. Absent: everyone does, and
	// must have two.
	AtLeastGroups int `json:"at_least_groups,omitzero" range:"[2,1000000000]" when:"prior=groups" unit:"groups" also:"min_groups"`
	// Unseen users have no device of the adversary's: an open world. Absent: none.
	Unseen numbers.Probability `json:"unseen,omitzero" range:"(0,1)" also:"open_world" source:"Orekondy et al. 2018, section 6.1.2"`
	// HeldOut users teach an attack what users are like whom it is not to name.
	HeldOut numbers.Probability `json:"held_out,omitzero" range:"(0,1)" source:"1/3 in Orekondy et al. 2018, section 6.1.2"`
	// Defence of the users: their anonymous devices mix examples of data.background into
	// the private ones before they train. Devices of the adversary stay as they are. Absent
	// or null: none.
	Defence *Defence `json:"defence,omitempty" also:"defense mitigation mix" source:"Orekondy et al. 2018, section 7.1"`
	// Profiles is a second source, each user of which is a profile: hand-made examples of what
	// the adversary looks for, and no user's. A device of the adversary's trains with all
	// examples of a profile. It is read as the data are. Absent or null: none.
	Profiles *SecondSource `json:"profiles,omitempty" source:"Orekondy et al. 2018, section 5.2.2 (iii)"`
	// IID shuffles the examples of all devices, which keep their sizes: a control, where
	// nobody can be told from another.
	IID bool `json:"iid,omitzero" default:"false" source:"Orekondy et al. 2018, section 6.1.1"`
}

// SecondSource is a source beside that of the data.
type SecondSource struct {
	// Source is whatever data.source may be.
	Source string `json:"source" required:"true" also:"path file dataset"`
	// SHA256 of it, as data.sha256 is that of the data; a submitted run always carries it.
	SHA256 string `json:"sha256,omitempty"`
	Format
}

// Format says how a source beside that of the data is read. Where neither is given, it is read
// by data.form and data.columns.
type Format struct {
	// Form of its files. Absent, with columns absent too: data.form; else told from the content.
	Form forms.Form `json:"form,omitempty" also:"format type reader"`
	// Columns of it that are not called as the form has them. Absent, with form absent too:
	// data.columns.
	Columns *SecondColumns `json:"columns,omitempty" also:"fields"`
}

// SecondColumns are names of columns, or of fields of JSON lines, of a source beside that of the data.
type SecondColumns struct {
	// User whose example it is. Numbers are taken as text.
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

// Defence mixes a background into private examples. Exactly one of replace and augment is
// given.
type Defence struct {
	// Replace so much of each device's private examples by ones of the background, drawn at
	// random: bkg-repl.
	Replace numbers.Probability `json:"replace,omitzero" range:"(0,1]" source:"0.25 to 1 in Orekondy et al. 2018, section 7.2"`
	// Augment each device's private examples by so many times as many of the background,
	// drawn at random: rand-aug.
	Augment float64 `json:"augment,omitzero" range:"(0,100]" source:"0.5 to 2 in Orekondy et al. 2018, section 7.2"`
	// Modes of the background, of which a user draws one, and the device gets examples of
	// no other: mm-aug. They are found by k-means over the pixels of images, the weighted
	// words of texts. Only with augment. Absent: examples of all topics.
	Modes int `json:"modes,omitzero" range:"[2,65536]" unit:"modes" also:"clusters topics" source:"100 to 500 in Orekondy et al. 2018, section 7.1"`
}

// SelectUsers chooses users by the share of their examples that prepare.classifier gets
// right. Percentiles are those of the users' shares in the data without planted faults.
// Exactly one of the two is given; users at the percentile are selected.
type SelectUsers struct {
	// Below this percentile: 25% selects about a quarter of the users where nothing is
	// planted.
	Below numbers.Probability `json:"below,omitzero" range:"(0,1)"`
	// Above this percentile, such as 75%.
	Above numbers.Probability `json:"above,omitzero" range:"(0,1)"`
}

// SelectWords chooses words. The sentences that they stand in are read at the word level,
// and faults are planted there.
type SelectWords struct {
	// Outside of a vocabulary of so many words: the most frequent ones of the training part
	// without faults, as data.vocabulary.size of the primary model says.
	Outside int `json:"outside" required:"true" range:"[1,10000000]" unit:"words" also:"vocabulary size" source:"10,000 in Augenstein et al. 2020, appendix B.2"`
	// Sequence is the length at which sentences are cut, as data.sequence of the primary
	// model says. That of this experiment is the length at which words are cut.
	Sequence int `json:"sequence" default:"20" range:"[1,1000]" unit:"words"`
}

// StepsOf is the number of steps of each of the two models, in a training of so many.
func (d *Disagreement) StepsOf(rounds int) int { return cmp.Or(d.Steps, (rounds+1)/2) }

// Users are balanced to one size, or stay as they are.
type Users struct {
	// Words of a balanced user: smaller users are dropped, larger ones split,
	// the remainder is discarded. Counted after sentences are cut. 0: users stay as they
	// are in the data, which is the default at the image level.
	Words int `json:"words" default:"2000" range:"[0,1000000000]" unit:"words (byte level: bytes)" source:"Thakkar et al. 2020, section 4.1; 0: Augenstein et al. 2020"`
}

// TestPart is the share of the examples that utility is measured on.
type TestPart struct {
	// Fraction of the examples that are held out; each has this probability. 0 with a split.
	Fraction numbers.Probability `json:"fraction" default:"10%" range:"[0,1)"`
	// Split of the data that is the test part, such as test, all of it: its users may be
	// others than those who train. Absent: a fraction is drawn.
	Split string `json:"split,omitempty" source:"Thakkar et al. 2020, section 4.1"`
}

// ValidationPart is the share of the examples that trainings are tuned and stopped by.
type ValidationPart struct {
	// Fraction of the examples that are held out; each has this probability.
	Fraction numbers.Probability `json:"fraction" default:"0" range:"[0,1)"`
	// Split of the data that is the validation part, such as heldout, all of it. Absent: a
	// fraction is drawn.
	Split string `json:"split,omitempty"`
}

// Exists reports whether there is such a part.
func (p *ValidationPart) Exists() bool { return p.Split != "" || !p.Fraction.IsZero() }

// Part is a share of the data that is kept from training.
type Part struct {
	// Fraction that is held out; each item has this probability.
	Fraction numbers.Probability `json:"fraction" default:"0" range:"[0,1)"`
}
