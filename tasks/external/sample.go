package external

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"coalmine/internal/conformance"
	"coalmine/tasks/datasets"
)

// Users and examples of the made-up data.
const (
	sampleUsers    = 20
	sampleExamples = 6
)

var sampleWords = strings.Fields("the people of states are free and it was a bright cold day in april when clocks were striking my number is four eight")

// sample is example i of the made-up data.
func (p *TrainParams) sample(i int) example {
	user := fmt.Sprint(i / sampleExamples)
	if p.ofImages() {
		label := i % p.Image.Classes
		return example{LabelledImage{user, &label}, conformance.Image(p.Image.Pixels(), p.Image.Classes, i)}
	}
	from := i * 7 % (len(sampleWords) - 8)
	return example{Example{user, strings.Join(sampleWords[from:from+3+i%6], " ")}, nil}
}

// writeSample makes up the data of a training.
func (x *trial) writeSample() error {
	files := trainFiles(x.params.Shards)
	for i, file := range files {
		first, end := sampleUsers*i/len(files), sampleUsers*(i+1)/len(files)
		var examples []example
		for e := first * sampleExamples; e < end*sampleExamples; e++ {
			examples = append(examples, x.params.sample(e))
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
	job.Users, job.Examples = sampleUsers, sampleUsers*sampleExamples
	text, err := json.Marshal(job)
	if err == nil && !x.params.ofImages() {
		err = x.putWords(append(datasets.Specials(), sampleWords...))
	}
	return errors.Join(err, x.workspace.Put(jobFile, text))
}
