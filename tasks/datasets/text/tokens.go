// Package text defines tokens: the levels at which a text is divided (words, bytes, subwords, and the
// numbers of images), the rules of division, vocabularies, and the frame of a sentence.
package text

// SentenceWords is the default length at which a Reading cuts sentences: the sequence length, in
// words, of the paper's models and of TensorFlow Federated's Stack Overflow task.
const SentenceWords = 20

// Token ids of special tokens. Ordinary words follow from FirstWord, in descending order of
// frequency in the training part.
const (
	Padding   = 0
	Unknown   = 1 // every word outside the vocabulary
	Begin     = 2
	End       = 3
	FirstWord = 4
)

// Frame appends to dst the sentence of the words, as the Stack Overflow task of
// TensorFlow Federated frames it: Begin first, and End last unless the words fill a whole sequence,
// so that inputs and targets have at most the length of a sequence. (google-research/federated,
// stackoverflow_word_prediction: build_to_ids_fn.)
func Frame(dst []int32, words []int32, sequence int) []int32 {
	dst = append(dst, Begin)
	dst = append(dst, words...)
	if len(words) < sequence {
		dst = append(dst, End)
	}
	return dst
}

// WordsOf returns the number of words of a sentence, without Begin and End.
func WordsOf(sentence []int32) int {
	n := len(sentence) - 1
	if n > 0 && sentence[n] == End {
		n--
	}
	return n
}

// Separator is the token between the two texts of a pair: the end of the source, and the
// first input of a decoder (Sutskever et al., "Sequence to Sequence Learning with Neural
// Networks", 2014, figure 1). A pair is one example: source, Separator, target.
const Separator = End

// MaxExample is the largest length of an example of text: a pair of two sequences of MaxSequence.
const MaxExample = 2*MaxSequence + 1

// EndsSource reports whether a word of a dictionary is the separator of pairs.
func EndsSource(word string) bool { return word == specials[Separator] }

// MaxSequence is the largest length at which sentences are cut.
const MaxSequence = 1000
