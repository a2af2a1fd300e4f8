package main

import (
	"github.com/spf13/pflag"

	"coalmine/storage/open"
)

// pathFlag is a directory, as open.Path reads it.
type pathFlag string

var _ pflag.Value = (*pathFlag)(nil)

// Set implements pflag.Value.
func (p *pathFlag) Set(text string) error {
	path, err := open.Path(text)
	if err == nil {
		*p = pathFlag(path)
	}
	return err
}

// String implements pflag.Value.
func (p *pathFlag) String() string { return string(*p) }

// Type implements pflag.Value.
func (p *pathFlag) Type() string { return "string" }
