package external

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"coalmine/internal/contracts"
	"coalmine/internal/lists"
	"coalmine/tasks/datasets/text"
)

// Sample describes synthetic data.
type Sample struct {
	// Users, and Examples per user.
	Users, Examples int
	// Words are the words of the texts, with a mean of Length and at most MaxWords in each text; Length 0
	// means a few. Symbols reports that Words are the bytes: texts then consist of letters.
	Words            []string
	Length, MaxWords int
	Symbols          bool
}

// checkSample is the training data of a Check.
var checkSample = Sample{
	Users: 20, Examples: 6,
	Words: strings.Fields("the people of states are free and it was a bright cold day in april when clocks were striking my number is four eight"),
}

func (s *Sample) text(i int) string {
	if s.Length == 0 {
		from := i * 7 % (len(s.Words) - 8)
		return strings.Join(s.Words[from:from+3+i%6], " ")
	}
	return s.ofLength(i, Spread(i, s.Length, s.MaxWords))
}

// spread scales the mean length of texts to varying lengths, because a batch of texts takes as long
// as its longest.
var spread = [...]float64{0.25, 0.75, 2.5, 0.5, 1}

// ofLength returns text i with n words, or letters.
func (s *Sample) ofLength(i, n int) string {
	if s.Symbols {
		var text strings.Builder
		for _, number := range contracts.Numbers(i, n, 26) {
			text.WriteByte('a' + byte(number))
		}
		return text.String()
	}
	words := lists.Map(contracts.Numbers(i, n, len(s.Words)), func(number int) string { return s.Words[number] })
	return strings.Join(words, " ")
}

// Spread returns the length of text i, at most most, for a mean of n.
func Spread(i, n, most int) int { return max(1, min(most, int(float64(n)*spread[i%len(spread)]+0.5))) }

// sample returns example i of the synthetic data.
func (p *TrainParams) sample(s *Sample, i int) example {
	user := fmt.Sprint(i / s.Examples)
	if p.ofImages() {
		label := i % p.Image.Classes
		return example{LabelledImage{user, &label}, contracts.Image(p.Image.Pixels(), p.Image.Classes, i)}
	}
	return example{Example{user, s.text(i)}, nil}
}

// writeSample writes synthetic training data.
func (x *trial) writeSample() error {
	files, s := trainFiles(x.params.Shards), &x.sample
	for i, file := range files {
		first, end := s.Users*i/len(files), s.Users*(i+1)/len(files)
		var examples []example
		for e := first * s.Examples; e < end*s.Examples; e++ {
			examples = append(examples, x.params.sample(s, e))
		}
		f, err := x.create(file, len(examples))
		if err != nil {
			return err
		}
		if err := errors.Join(f.write(examples), f.close()); err != nil {
			return err
		}
	}
	job := x.newJob()
	job.Users, job.Examples = s.Users, s.Users*s.Examples
	x.members = map[string]int{"user": job.Users, "record": job.Examples}
	content, err := json.Marshal(job)
	if err == nil && !x.params.ofImages() {
		err = x.putWords(append(text.Specials(), s.Words...))
	}
	return errors.Join(err, x.workspace.Put(jobFile, content))
}
