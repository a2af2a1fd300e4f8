package data

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"coalmine/internal/clone"
	"coalmine/internal/must"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/workflows/data/conversion"
)

func TestHandwritingHasStatedCounts(t *testing.T) {
	t.Parallel()
	file := source.File{Name: "handwriting.jsonl.gz", Open: func() (io.ReadCloser, error) { return os.Open("handwriting.jsonl.gz") }}
	recipe := datasets.Recipe{Reading: source.Reading{Level: text.ImageLevel}}
	facts := must.Get(datasets.Survey(t.Context(), []source.File{file}, source.Limits{}, []datasets.Recipe{recipe}))(t)
	if c := facts[0].Source; c.Users != 297 || c.Examples != 10000 || c.Words != 10000*785 {
		t.Errorf("%+v", c)
	}
	if info, err := os.Stat(file.Name); err != nil || info.Size() > 3<<20 {
		t.Errorf("%v, %v; expected a file that is small enough for a repository", info, err)
	}
}

func TestHandwritingMatchesConvert(t *testing.T) {
	t.Parallel()
	folder := clone.SharedData(t, "mnist-writers")
	files := must.Get(conversion.FindIDX(folder, conversion.IDXFiles{WriterColumn: conversion.QMNISTWriter}))(t)
	path := filepath.Join(t.TempDir(), "again.jsonl.gz")
	must.Do(t, conversion.WriteFile(path, func(out io.Writer) error {
		_, err := conversion.Convert(conversion.IDX(files), out, conversion.Options{})
		return err
	}))
	again := must.Get(os.ReadFile(path))(t)
	shipped := must.Get(os.ReadFile("handwriting.jsonl.gz"))(t)
	if !bytes.Equal(again, shipped) {
		t.Error("handwriting.jsonl.gz is not what coalmine data convert makes of the files it comes from")
	}
}
