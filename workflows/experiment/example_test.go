package experiment_test

import (
	"fmt"

	"coalmine/workflows/experiment"
)

func ExampleParse() {
	const file = `
name: clipping
data: {source: talk.jsonl}
training: {cohort: 100, epochs: 10}
grid:
  axes:
    data.partition: [iid, by-user]
    training.privacy: [null, {clip: 0.2}]
`
	spec, err := experiment.Parse("clipping.yaml", []byte(file), experiment.Options{Sets: []string{"training.cohort=50"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range spec.Cells {
		fmt.Println(c.Name, c.Label)
	}
	// Output:
	// c01 iid, FedAvg
	// c02 iid, FedAvg+Clip
	// c03 by-user, FedAvg
	// c04 by-user, FedAvg+Clip
}

func ExampleParse_mistakes() {
	const file = `
name: clipping
data: {source: talk.jsonl, partition: users}
training: {cohort: 100, epochs: 10, privacy: {clip: -1}}
`
	_, err := experiment.Parse("clipping.yaml", []byte(file), experiment.Options{})
	fmt.Println(err)
	// Output:
	// 2 mistakes in the experiment:
	//   clipping.yaml:3:39: data.partition: is "users"; expected one of by-user, iid
	//   clipping.yaml:4:53: training.privacy.clip: is -1; expected a number above 0, at most 1000000000
}
