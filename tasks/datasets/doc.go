// Package datasets turns a file of users' texts or images into the population that
// models train on. These kinds of task follow one another:
//
//	import     source -> corpus: words cut to sentences, grouped by user
//	encode     corpus -> vocabulary, and the parts train, test, validation
//	           (or out-of-vocabulary: corpus -> parts of the words that a vocabulary lacks)
//	balance    train  -> balanced users of about the same number of words
//	           (package canaries draws canaries and inserts them here)
//	partition  balanced users -> the population: by-user, or iid
//	           (package filters removes examples from it)
//
// Records come from package source, in tokens of package text or the numbers of package images; package
// faults damages them on purpose. Package population has balanced users, partitions and the population that
// trains. The words used here:
//
//   - A source is one or more files of JSON lines, {"user": …, "text": …},
//     plain, gzip or Zstandard. Each line is an example. At the image level it is
//     {"user": …, "label": …, "pixels": …}.
//   - A word is a token of text.Tokenizer; a punctuation mark counts as one. Of every
//     example the first SentenceWords words are kept, unless a Reading says
//     otherwise: at the byte level the words are the bytes of the text, at the
//     image level the label and the pixels.
//   - A part is a set of examples: Train, Test or Validation.
//   - A stream is the encoded examples of a part, one after another, cut into
//     shards. Users' examples are contiguous in it.
//   - An index holds the positions of each user's examples in a stream.
//   - An overlay lists the examples that canaries replace. No token of a stream is rewritten for them.
//
// Training reads a population.Population: index, overlay and stream together. Evaluation
// reads a part in the same way. Survey computes from the source alone, in one
// pass, the numbers that the tasks will find.
package datasets

import (
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
)

// Kinds lists the kinds of this package and of package population.
func Kinds() []tasks.Kind {
	return []tasks.Kind{Import, Encode, OutOfVocabulary, population.Balance, population.Partition, population.ReferenceUsers}
}
