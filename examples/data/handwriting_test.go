package data

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"coalmine/internal/clone"
	"coalmine/tasks/datasets"
	"coalmine/workflows/data/conversion"
)

func TestTheHandwritingIsWhatItsPageSays(t *testing.T) {
	t.Parallel()
	file := datasets.File{Name: "handwriting.jsonl.gz", Open: func() (io.ReadCloser, error) { return os.Open("handwriting.jsonl.gz") }}
	recipe := datasets.Recipe{Reading: datasets.Reading{Level: datasets.ImageLevel}}
	facts, err := datasets.Survey(t.Context(), []datasets.File{file}, datasets.Limits{}, []datasets.Recipe{recipe})
	if err != nil {
		t.Fatal(err)
	}
	if c := facts[0].Source; c.Users != 297 || c.Examples != 10000 || c.Words != 10000*785 {
		t.Errorf("%+v", c)
	}
	if info, err := os.Stat(file.Name); err != nil || info.Size() > 3<<20 {
		t.Errorf("%v, %v; expected a file that is small enough for a repository", info, err)
	}
}

func TestTheHandwritingIsWhatConvertMakes(t *testing.T) {
	t.Parallel()
	folder := clone.SharedData(t, "mnist-writers")
	files, err := conversion.FindIDX(folder, conversion.IDXFiles{WriterColumn: conversion.QMNISTWriter})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "again.jsonl.gz")
	out, err := conversion.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conversion.Convert(conversion.IDX(files), out, conversion.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := out.Commit(); err != nil {
		t.Fatal(err)
	}
	again, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := os.ReadFile("handwriting.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again, shipped) {
		t.Error("handwriting.jsonl.gz is not what coalmine data convert makes of the files it comes from")
	}
}
