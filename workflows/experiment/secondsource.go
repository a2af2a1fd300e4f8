package experiment

import "coalmine/storage"

// Places of the sources beside that of the data, among SecondSources.
const (
	BackgroundSource = iota
	ProfilesSource
	secondSources
)

// SecondFiles are the digests of the files of each of SecondSources.
type SecondFiles [secondSources][]storage.Digest

// NamedSource is a source and the block that names it.
type NamedSource struct {
	Path string
	Of   *SecondSource // nil where there is none
}

// SecondSources are those beside that of the data.
func (d *Data) SecondSources() [secondSources]NamedSource {
	sources := [secondSources]NamedSource{
		BackgroundSource: {"data.background", d.Background},
		ProfilesSource:   {"data.devices.profiles", nil},
	}
	if d.Devices != nil {
		sources[ProfilesSource].Of = d.Devices.Profiles
	}
	return sources
}
