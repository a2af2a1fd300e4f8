package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

// directoriesFlag holds existing directories, as absolute paths.
type directoriesFlag []string

// String implements pflag.Value.
func (d *directoriesFlag) String() string { return strings.Join(*d, ",") }

// Type implements pflag.Value.
func (d *directoriesFlag) Type() string { return "directory" }

// Set implements pflag.Value: it adds a directory.
func (d *directoriesFlag) Set(value string) error {
	path, err := filepath.Abs(value)
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return fmt.Errorf("%s is no directory: expected one that there is", path)
	}
	*d = append(*d, path)
	return nil
}

// mayWrite adds the flag to processes that run commands of experiments. Their operator, not the
// author of the experiment, chooses the writable directories.
func mayWrite(f *pflag.FlagSet, directories *directoriesFlag) {
	f.Var(directories, "commands-may-write", "directory that commands of experiments may write to beside their own, such as ~/.cache/huggingface; / is anywhere; repeatable (Linux: all others are read-only where the system allows it)")
}
