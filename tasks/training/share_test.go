package training

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/seeds"
	"coalmine/privacy"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/updates"
)

// sharing are clients who make the noise of a round.
func (b *bench) sharing() ClientsParams {
	p := clientsParams()
	p.Clip, p.Sampling = 0.05, privacy.FixedSize
	p.Record = &updates.Recording{Every: 1, Layers: b.everyLayer()}
	return p
}

// Every update that leaves a device is its clipped one with a share of the round's noise, and
// the sum has them all.
func TestDevicesMakeTheNoiseOfARound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.sharing()
	plain := sent(t, b.mustStep(Clients, p, b.origin, 2, 0))
	p.NoiseMultiplier = 1.5
	n := b.mustStep(Clients, p, b.origin, 2, 0)
	noisy, total := sent(t, n), make([]float64, len(plain[0].Values))
	if len(noisy) != p.Cohort {
		t.Fatalf("%d of %d devices have sent something", len(noisy), p.Cohort)
	}
	for i, u := range noisy {
		rng, want := seeds.Stream(p.Seed, seeds.NoiseShare, 2, uint64(u.Device)), make([]float64, len(u.Values))
		for j, v := range plain[i].Values {
			want[j] = float64(v) + 1.5*0.05/math.Sqrt(float64(p.Cohort))*rng.NormFloat64()
			total[j] += want[j]
		}
		closeTo(t, fmt.Sprintf("update of device %d", u.Device), u.Values, want)
	}
	closeTo(t, "sum", sumOf(t, n), total)
}

// The shares of a cohort are together as much noise as the server would add.
func TestNoiseSharesSumToServerNoise(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.sharing()
	p.Cohort = b.users().Users()
	plain := sumOf(t, b.mustStep(Clients, p, b.origin, 1, 0))
	p.NoiseMultiplier = 4
	noisy := sumOf(t, b.mustStep(Clients, p, b.origin, 1, 0))
	sum, n := 0.0, float64(len(plain))
	for i, v := range noisy {
		d := float64(v) - float64(plain[i])
		sum += d * d
	}
	// The sample deviation of n normals has a relative error of 1/sqrt(2n); five of those are
	// passed with probability 6e-7. The seed is fixed.
	want := float64(p.Cohort) * privacy.MeanNoise(4, p.Clip, p.Cohort)
	if got := math.Sqrt(sum / n); math.Abs(got/want-1) > 5/math.Sqrt(2*n) {
		t.Errorf("the noise on the sum deviates by %.5f, want %.5f", got, want)
	}
}

// A device without examples sends its share of the noise, and counts as no client.
func TestADeviceWithoutExamplesSendsNoise(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.sharing()
	p.NoiseMultiplier = 2
	before := b.users()
	p.Cohort = before.Users()
	const out = 2
	extents := slices.Clone(before.Index().Extents)
	extents[out] = population.Extent{Offset: extents[out].Offset}
	b.population = b.populationOf("emptied", before.Index().WithExtents(extents))
	n := b.mustStep(Clients, p, b.origin, 1, 0)
	var m ChunkMetrics
	if n.DecodeMetrics(&m); m.Clients != int64(p.Cohort-1) {
		t.Errorf("%d clients are counted of %d, one of whom has no examples", m.Clients, p.Cohort)
	}
	all := sent(t, n)
	if len(all) != p.Cohort || all[out].Device != out {
		t.Fatalf("%d devices have sent something, want all %d", len(all), p.Cohort)
	}
	rng, want := seeds.Stream(p.Seed, seeds.NoiseShare, 1, out), make([]float64, len(all[out].Values))
	for i := range want {
		want[i] = privacy.NoiseShare(2, p.Clip, p.Cohort) * rng.NormFloat64()
	}
	closeTo(t, "update of nobody", all[out].Values, want)
}

func TestDeviceNoiseRejectsIncompatibleOptions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, change := range map[string]func(*ClientsParams){
		"no clip": func(p *ClientsParams) { p.Clip = 0 }, "an adaptive clip": func(p *ClientsParams) { p.AdaptiveClip = true },
		"other noise": func(p *ClientsParams) { p.Noise = 1 }, "compression": func(p *ClientsParams) { p.Compress = &Compression{Bits: 8} },
		"Poisson sampling": func(p *ClientsParams) { p.Sampling = privacy.Poisson },
	} {
		p := b.sharing()
		p.NoiseMultiplier = 1
		change(&p)
		if _, err := b.step(Clients, p, b.origin, 1, 0); err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "make the noise of a round") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}
