package membership

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/klauspost/compress/zlib"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/external"
)

const (
	// TextsBlob is a JSON array of UserText, for the users of LossesBlob.
	TextsBlob = "texts"
	// TextsInput is the node of the texts.
	TextsInput = "texts"
)

// UserText holds the features of a user's examples that do not depend on a model.
type UserText struct {
	// Words are numbers of words in ascending order, each followed by its count.
	Words []int64 `json:"words"`
	// Compressed is the length of the text in bytes after compression by zlib, at level 6.
	Compressed int64 `json:"compressed"`
}

// NewUserText counts words, and compresses the text.
func NewUserText(words []int64, text []byte) UserText {
	words = slices.Sorted(slices.Values(words))
	var t UserText
	for from := 0; from < len(words); {
		to := from
		for to < len(words) && words[to] == words[from] {
			to++
		}
		t.Words = append(t.Words, words[from], int64(to-from))
		from = to
	}
	t.Compressed = compressed(text)
	return t
}

// compressors holds *zlib.Writer of level 6: making one takes longer than compressing a user's text.
var compressors = sync.Pool{New: func() any {
	w, err := zlib.NewWriterLevel(nil, 6)
	if err != nil {
		panic(err) // only for a level that does not exist
	}
	return w
}}

// compressed returns the length of a zlib stream. Writing to memory does not fail.
func compressed(text []byte) int64 {
	w := compressors.Get().(*zlib.Writer)
	defer compressors.Put(w)
	var stream bytes.Buffer
	w.Reset(&stream)
	_, err := w.Write(text)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err)
	}
	return int64(stream.Len())
}

// Texts reads the texts of all users. Inputs: population.BalancedInput, population.PartsInput, and
// population.InsertionsInput if there are canaries.
var Texts = tasks.Kind{Name: "audits/user-texts", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runTexts)}

func runTexts(ctx context.Context, t *tasks.Task, _ *struct{}) error {
	vocabulary, err := text.ReadVocabulary(ctx, t, population.PartsInput)
	if err != nil {
		return err
	}
	all, err := openEveryone(ctx, t)
	if err != nil {
		return err
	}
	texts := make([]UserText, all.users())
	for user := range texts {
		examples, _, err := all.read(ctx, user)
		if err != nil {
			return err
		}
		var words []int64
		var text bytes.Buffer
		for _, example := range examples {
			tokens := external.Words(example)
			for _, token := range tokens {
				words = append(words, int64(token))
			}
			text.WriteString(vocabulary.Text(tokens))
			text.WriteByte('\n')
		}
		texts[user] = NewUserText(words, text.Bytes())
		t.Progress(tasks.Progress{Done: int64(user + 1), Total: int64(len(texts))})
	}
	return t.PutJSON(ctx, TextsBlob, texts)
}

func readTexts(ctx context.Context, t *tasks.Task, users int) ([]UserText, error) {
	texts, err := audits.ReadLists[UserText](ctx, t, TextsBlob, TextsInput)
	if err != nil {
		return nil, err
	}
	if len(texts) != users {
		return nil, fmt.Errorf("%s has the texts of %s; expected %d: %w", TextsInput, readable.Count(len(texts), "user"), users, storage.ErrCorrupt)
	}
	for user, text := range texts {
		if len(text.Words)%2 == 1 || text.Compressed <= 0 {
			return nil, fmt.Errorf("the text of user %d has %d numbers and %d bytes; expected words with their counts, and bytes: %w", user, len(text.Words), text.Compressed, storage.ErrCorrupt)
		}
	}
	return texts, nil
}

func (w *world) read(texts []UserText) {
	w.texts = lists.Map(w.users, func(user int) UserText { return texts[user] })
}

// zlib returns minus the loss per byte of the compressed text.
func (w *world) zlib() []float64 {
	return w.scores(func(user int) float64 { return -w.of[user].Loss / float64(w.texts[user].Compressed) })
}

// folds is the number of folds of the blind baseline: a user is scored by a classifier trained on the other folds.
const folds = 10

// blind scores users only by their texts: the log-likelihood ratio of a multinomial naive Bayes classifier,
// trained on words and lengths of the users of the other folds. The members, and the held-out users, are
// assigned to the folds in turn.
func (w *world) blind() []float64 {
	var turn [2]int
	var all wordCounts
	var of [folds]wordCounts
	fold, features := make([]int, len(w.users)), make([][]int64, len(w.users))
	for user := range fold {
		side := side(w.of[user].Member)
		fold[user] = turn[side] % folds
		turn[side]++
		features[user] = w.texts[user].features()
		all.add(features[user], side)
		of[fold[user]].add(features[user], side)
	}
	return w.scores(func(user int) float64 { return all.ratio(&of[fold[user]], features[user]) })
}

func side(member bool) int {
	if member {
		return 1
	}
	return 0
}

// features returns the words with their counts, and the number of bits of the text's length with count 1, as
// a word below 0.
func (t *UserText) features() []int64 {
	length := int64(0)
	for i := 1; i < len(t.Words); i += 2 {
		length += t.Words[i]
	}
	return append([]int64{-1 - int64(bits.Len64(uint64(length))), 1}, t.Words...)
}

// wordCounts counts words, by side: held out, and member.
type wordCounts struct {
	words map[int64]*[2]int64
	total [2]int64
}

func (c *wordCounts) add(features []int64, side int) {
	if c.words == nil {
		c.words = map[int64]*[2]int64{}
	}
	for i := 0; i < len(features); i += 2 {
		word, n := features[i], features[i+1]
		if c.words[word] == nil {
			c.words[word] = new([2]int64)
		}
		c.words[word][side] += n
		c.total[side] += n
	}
}

// ratio returns the log-likelihood ratio of words by the counts without those of a fold, plus one for each
// count.
func (c *wordCounts) ratio(without *wordCounts, features []int64) (sum float64) {
	share := func(word int64, side int) float64 {
		count := c.words[word][side] + 1
		if left := without.words[word]; left != nil {
			count -= left[side]
		}
		return float64(count) / float64(c.total[side]-without.total[side]+int64(len(c.words)))
	}
	for i := 0; i < len(features); i += 2 {
		sum += float64(float64(features[i+1]) * math.Log(share(features[i], 1)/share(features[i], 0)))
	}
	return sum
}
