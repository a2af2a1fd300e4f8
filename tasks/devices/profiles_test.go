package devices

import (
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// profiled adds two profiles, of three examples and of one, to a node of devices.
func (b *bench) profiled(divided *taskstest.Node) *taskstest.Node {
	b.t.Helper()
	lines := `{"user":"weapons","text":"sabre"}
{"user":"guitars","text":"lute"}
{"user":"weapons","text":"bow"}
{"user":"weapons","text":"pike"}
`
	corpus := b.Run(datasets.Import, datasets.ImportParams{
		Sources: []storage.Digest{b.Import([]byte(lines))}, Reading: source.Reading{Level: text.ByteLevel},
	})
	encoded := b.Run(datasets.Encode, datasets.EncodeParams{Level: text.ByteLevel}, taskstest.In(datasets.CorpusInput, corpus))
	return b.Run(Profiles, struct{}{}, taskstest.In(population.Input, divided),
		taskstest.In(ProfilesInput, encoded), taskstest.In(datasets.CorpusInput, corpus))
}

// The devices that are there keep their numbers and examples, canaries with them; profiles have
// devices after them.
func TestProfilesHaveDevicesAfterAllOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t, 12, 9, 17)
	divided := must.Get(b.split(SplitParams{Seed: 1, Prior: Random, Share: 0.5, Unseen: 0.3}))(t)
	node := b.profiled(divided)
	list, before := b.devices(node), b.devices(divided)
	want := append(slices.Clone(before), Device{User: 3, Shadow: true, Set: Profile}, Device{User: 4, Shadow: true, Set: Profile})
	if !slices.Equal(list, want) {
		t.Errorf("the devices are %+v, want %+v", list, want)
	}
	is, was := b.read(node, node), b.read(divided, divided)
	for device := range before {
		if !slices.Equal(of(is, device), of(was, device)) {
			t.Errorf("device %d has %v, before %v", device, of(is, device), of(was, device))
		}
	}
	if first, second := of(is, len(before)), of(is, len(before)+1); len(first) != 3 || len(second) != 1 {
		t.Errorf("the profiles have %v and %v", first, second)
	}
	names, err := ReadProfiles(t.Context(), b.Task(taskstest.In("d", node)), "d")
	if err != nil || !slices.Equal(names, []string{"weapons", "guitars"}) {
		t.Errorf("the profiles are %v, %v", names, err)
	}
	s, err := readWorld(b, node)
	then, _ := readWorld(b, divided)
	then.Devices, then.Profiles, then.ProfileExamples = len(list), 2, 4
	if err != nil || s != then {
		t.Errorf("the summary is %+v, %v, want %+v", s, err, then)
	}
}

func TestGoldenProfiles(t *testing.T) {
	t.Parallel()
	b := newBench(t, 14, 9)
	taskstest.Golden(t, b.profiled(b.Run(Split, SplitParams{Seed: 1, Prior: Random, Share: 0.5}, b.data()...)))
}
