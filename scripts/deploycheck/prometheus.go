package main

import (
	"errors"
	"log/slog"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	_ "github.com/prometheus/prometheus/discovery/dns" // which the configuration names
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// checkRules parses alerts as Prometheus does: fields, expressions, templates.
func checkRules(path string) error {
	_, errs := rulefmt.ParseFile(path, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	return errors.Join(errs...)
}

// checkScraping loads a configuration as Prometheus does when it starts.
func checkScraping(path string) error {
	_, err := config.LoadFile(path, false, slog.New(slog.DiscardHandler))
	return err
}
