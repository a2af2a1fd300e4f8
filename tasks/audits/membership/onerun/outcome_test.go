package onerun_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/membership/onerun"
	"coalmine/workflows/results"
)

// audited are the results of one cell, whose lower bound is as given, with further members of
// its outcome; 154 is proved.
func audited(t *testing.T, lower float64, more ...string) *results.Results {
	t.Helper()
	text := fmt.Sprintf(`{"run": "r-1", "experiment": "r", "cells": [{
		"cell": "c01", "label": "by-user, DP-FedAvg", "axes": {}, "status": "done",
		"privacy": {"epsilon": 18.8, "epsilon_proved": 154, "delta": 1e-7, "noise_multiplier": 1, "unit": "balanced user", "rounds": 7840,
			"sampling": "fixed-size", "neighbouring": "replace-one", "conversion": "classic"},
		"audit": {"one_run": {"canaries": 60, "included": 37, "k_plus": 10, "k_minus": 8, "correct": 17,
			"epsilon_lower": %v, "delta": 1e-7, "confidence": 0.95, "epsilon_largest": 1.82, "epsilon_largest_canaries": 2.97,
			"neighbouring": "replace-one", "unit": "balanced user", "score": "loss-difference", %s
			"units": [{"words": ["a", "b"], "score": 1.5, "included": true, "guess": "in"}]}, "canaries": [], "never_inserted": [], "controls": []}}]}`, lower, strings.Join(more, ""))
	r := new(results.Results)
	must.Do(t, json.Unmarshal([]byte(text), r))
	return r
}

func written(t *testing.T, r *results.Results, format string) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, r.Write(&b, format))
	return b.String()
}

func TestLowerBoundIsPrintedWithItsConditions(t *testing.T) {
	t.Parallel()
	for format, wants := range map[string][]string{
		"table": {
			"one-run epsilon >= (of)", "1.29 (1.82)",
			"epsilon at least 1.29 at delta 1e-07 with 95% confidence (replace-one, unit balanced user, score loss-difference): 17 of 18 guesses about 60 canaries are right; all of them would certify 1.82, as many as canaries 2.97; POWERLESS against epsilon_proved 154",
		},
		"latex": {` & one-run \\`, ` & epsilon $\geq$ \\`, ` & (of) \\`, `1.29 (1.82) \\`, `epsilon at least 1.29 at delta 1e-07 with 95\% confidence (replace-one, unit balanced user`},
		"json":  {`"one_run": {`, `"epsilon_lower": 1.29`, `"k_plus": 10`, `"confidence": 0.95`, `"epsilon_largest_canaries": 2.97`, `"guess": "in"`},
		"csv":   {"epsilon_lower,one_run_delta,one_run_confidence,one_run_neighbouring,one_run_unit", "1.29,1e-07,0.95,replace-one,balanced user,60,10,8,17,1.82"},
		"html":  {`>one-run epsilon &gt;= (of)</th>`, "<td>1.29 (1.82)</td>", "epsilon at least 1.29 at delta 1e-07 with 95% confidence (replace-one, unit balanced user"},
	} {
		text := written(t, audited(t, 1.29), format)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%s", format, want, text)
			}
		}
	}
}

func TestEveryCoinHasARow(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	must.Do(t, audited(t, 1.29).WriteRows(&b, "csv", results.Canaries))
	header, row, _ := strings.Cut(b.String(), "\n")
	if !strings.Contains(header, ",one_run_score,one_run_included,one_run_guess,") || !strings.HasPrefix(row, `r-1,r,c01,"by-user, DP-FedAvg",one_run,a b,`) || !strings.Contains(row, ",1.5,true,in,") {
		t.Errorf("got\n%s", b.String())
	}
}

func TestLowerBoundAboveProvedEpsilonIsReported(t *testing.T) {
	t.Parallel()
	for lower, crossed := range map[float64]bool{1.29: false, 155: true} {
		text := written(t, audited(t, lower), "table")
		if strings.Contains(text, "ABOVE epsilon_proved 154") != crossed {
			t.Errorf("a lower bound of %v beside a proved 154:\n%s", lower, text)
		}
	}
}

// 60 canaries cannot certify more than 2.97, for any training.
func TestNoteReportsPowerlessAudit(t *testing.T) {
	t.Parallel()
	for proved, powerless := range map[privacy.Epsilon]bool{2.9: false, 3: true, privacy.Epsilon(math.Inf(1)): false} {
		v := onerun.Outcome{EpsilonLower: 1.29, EpsilonLargestCanaries: 2.97}
		note := v.Note(&audits.Cell{Privacy: &privacy.Report{EpsilonProved: proved}})
		if strings.Contains(note, "POWERLESS") != powerless {
			t.Errorf("beside a proved %v: %s", proved, note)
		}
	}
}

// One round of all users is a Gaussian mechanism of shift 2/z under replace-one. Of 60 coins without independence
// all 60 right guesses refute z = 2, whose epsilon is above 2.97; 4 of 4 do not. So it is of Poisson cohorts, with the
// shift 1/z.
func TestNoteReportsPowerlessTradeOffCurve(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sampling  privacy.Sampling
		noise     float64
		coins     int
		powerless bool
	}{{privacy.Shuffled, 2, 60, false}, {privacy.Shuffled, 2, 4, true}, {privacy.Poisson, 1, 60, false}, {privacy.Poisson, 1, 4, true}} {
		v := onerun.Outcome{Canaries: c.coins, Confidence: 0.95, EpsilonLargestCanaries: 2.97, TradeOff: &onerun.TradeOff{Claimed: true}}
		report := must.Get(privacy.Account(privacy.Recipe{Population: 100, Cohort: 100, Rounds: 1, NoiseMultiplier: c.noise, Delta: 1e-5, Sampling: c.sampling}))(t)
		note := v.Note(&audits.Cell{Privacy: &report})
		if strings.Contains(note, "POWERLESS") != c.powerless || strings.Contains(note, "this bound is below it, and the trade-off curve is not refuted, however good the guesses are") != c.powerless {
			t.Errorf("%s, %d coins beside a proved %v: %s", c.sampling, c.coins, report.EpsilonProved, note)
		}
	}
}

func TestTheTradeOffCurveIsInEveryOutput(t *testing.T) {
	t.Parallel()
	r := audited(t, 1.29, `"trade_off": {"noise_multiplier_refuted": 0.8, "epsilon_lower": 213, "p_value": 0.013, "refuted": true, "claimed": true, "k_plus": 5, "k_minus": 4, "correct": 9},`)
	for format, wants := range map[string][]string{
		"table": {"by trade-off curve (z <)", "213 (0.8)", "refutes epsilon", "refutes z", "9 of 9 guesses refute noise multipliers from 0.8 on, of which epsilon 213 is proved, and with them the CLAIMED one (p 0.013)"},
		"csv":   {"one_run_noise_multiplier_refuted,one_run_trade_off_epsilon_lower,one_run_p_value,one_run_refuted,one_run_epsilon_refuted", "0.8,213,0.013,true,false"},
		"json":  {`"noise_multiplier_refuted": 0.8`, `"p_value": 0.013`},
	} {
		text := written(t, r, format)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%s", format, want, text)
			}
		}
	}
	r = audited(t, 1.29, `"trade_off": {"noise_multiplier_refuted": null, "epsilon_lower": 0, "p_value": 1, "refuted": false, "k_plus": 5, "k_minus": 4, "correct": 3},`)
	if text := written(t, r, "table"); !strings.Contains(text, "no noise is refuted") {
		t.Errorf("nothing found:\n%s", text)
	}
}

func TestGatesLimitTheLowerBound(t *testing.T) {
	t.Parallel()
	breaches := func(lower float64) []string {
		return onerun.Audit.Limits[0].Breaches(&audits.Cell{Outcomes: []audits.Outcome{&onerun.Outcome{Canaries: 9, EpsilonLower: lower, Delta: 1e-7, Confidence: 0.95, Neighbouring: "replace-one"}}}, new(1.5))
	}
	if got := breaches(1.29); len(got) != 0 {
		t.Errorf("1.29 is within 1.5, yet %q", got)
	}
	if want := "epsilon_lower (replace-one, at delta 1e-07 with 95% confidence) is 1.6, above the limit of 1.5"; strings.Join(breaches(1.6), "; ") != want {
		t.Errorf("breaches %q, want %q", breaches(1.6), want)
	}
}
