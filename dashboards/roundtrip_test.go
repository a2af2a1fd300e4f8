package dashboards

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"coalmine/internal/encoding"
	"coalmine/internal/must"
	"coalmine/internal/queue"
	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/skewnormal"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/reports"
	"coalmine/workflows/control"
	"coalmine/workflows/experiment"
	"coalmine/workflows/results"
	"coalmine/workflows/results/dataexport"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/leadership"
	"coalmine/workflows/runs/retention"
	"coalmine/workflows/runs/status"
)

var key = storage.Key{Digest: storage.DigestOf([]byte("a node"))}

func TestClientRoundTrips(t *testing.T) {
	t.Parallel()
	api := newFake()
	c, _ := start(t, api, Options{})
	ctx := t.Context()

	t.Run("list", func(t *testing.T) {
		all, err := c.List(ctx)
		if err != nil || len(all) != 1 || !reflect.DeepEqual(*all[0], api.status) {
			t.Errorf("got %+v, %v", all, err)
		}
	})
	t.Run("status", func(t *testing.T) {
		s, err := c.Status(ctx, "grid-0")
		if err != nil || !reflect.DeepEqual(*s, api.status) || api.asked.run != "grid-0" {
			t.Errorf("asked for %q, got %+v, %v", api.asked.run, s, err)
		}
	})
	t.Run("the newest run has no name", func(t *testing.T) {
		if _, err := c.Status(ctx, ""); err != nil || api.asked.run != "" {
			t.Errorf("asked for %q, %v", api.asked.run, err)
		}
	})
	t.Run("submit", func(t *testing.T) {
		spec := runs.Spec{Name: "grid", Digest: key.Digest, Priority: new(3), Experiment: []byte(`{"é": "<>"}`)}
		got, err := c.Submit(ctx, spec, true)
		if err != nil || got != (control.Submitted{Run: "grid-01234567"}) || !api.asked.fresh || !reflect.DeepEqual(api.asked.spec, spec) {
			t.Errorf("submitted %+v, got %+v, %v", api.asked.spec, got, err)
		}
		if got, err := c.Submit(ctx, spec, false); err != nil || !got.Continued || api.asked.fresh {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("submit a file", func(t *testing.T) {
		file := control.File{Name: "a b.yaml", Text: []byte("name: é\n"), Sets: []string{"seed=2", "a&b=c d"}, Priority: new(-1)}
		got, err := c.SubmitFile(ctx, file, true)
		if err != nil || got.Continued || !api.asked.fresh || !reflect.DeepEqual(api.asked.file, file) {
			t.Errorf("submitted %+v, got %+v, %v", api.asked.file, got, err)
		}
	})
	t.Run("steer", func(t *testing.T) {
		for _, e := range []runs.Entry{
			{Kind: runs.PauseEntry}, {Kind: runs.ResumeEntry}, {Kind: runs.CancelEntry}, {Kind: runs.RetryEntry},
			{Kind: runs.RetryEntry, Keys: []storage.Key{key}}, {Kind: runs.PinEntry, Pinned: true}, {Kind: runs.PinEntry, Cells: []string{"c02"}}, {Kind: runs.Prioritized, Priority: -2},
			{Kind: runs.NoteEntry, Note: "é <b>"}, {Kind: runs.NoteEntry}, {Kind: runs.TagEntry, Tags: []string{"paper"}},
		} {
			run, err := c.Steer(ctx, "grid", e)
			if err != nil || run != "grid-01234567" || !reflect.DeepEqual(api.asked.entry, e) {
				t.Errorf("steered %+v, got %q, %v", api.asked.entry, run, err)
			}
		}
	})
	t.Run("remove and collect", func(t *testing.T) {
		api.collected = retention.Result{
			DryRun: true, OlderThan: 3600, Runs: 2, Young: retention.Amount{Objects: 1, Bytes: 2},
			Collected: map[storage.ObjectKind]*retention.Amount{storage.BlobObject: {Objects: 3, Bytes: 1 << 40}},
		}
		removed, err := c.Remove(ctx, "grid-0")
		if err != nil || removed.Run != "grid-01234567" || api.asked.run != "grid-0" || !reflect.DeepEqual(*removed.Freed, api.collected) {
			t.Errorf("asked for %q, got %+v, %v", api.asked.run, removed, err)
		}
		older := 7.5
		want := control.CollectOptions{DryRun: true, OlderThan: &older}
		got, err := c.Collect(ctx, want)
		if err != nil || !reflect.DeepEqual(api.asked.collect, want) || !reflect.DeepEqual(*got, api.collected) {
			t.Errorf("asked for %+v, got %+v, %v", api.asked.collect, got, err)
		}
	})
	t.Run("collect and watch", func(t *testing.T) {
		api.batches = 3
		defer func() { api.batches, api.err = 0, nil }()
		var seen []int
		want := control.CollectOptions{Progress: func(deleted, of int) { seen = append(seen, 10*deleted+of) }}
		got, err := c.Collect(ctx, want)
		if err != nil || !reflect.DeepEqual(*got, api.collected) || !slices.Equal(seen, []int{13, 23, 33}) {
			t.Errorf("got %+v, %v after the progress %v", got, err, seen)
		}
		api.err = fmt.Errorf("collecting: %w", leadership.ErrStandby)
		if got, err := c.Collect(ctx, want); !errors.Is(err, leadership.ErrStandby) || err.Error() != api.err.Error() || len(seen) != 6 {
			t.Errorf("a collection that fails midway: %+v, %v after the progress %v", got, err, seen)
		}
	})
	t.Run("drain", func(t *testing.T) {
		if got, err := c.Drain(ctx, "host/a"); err != nil || !reflect.DeepEqual(got, []string{"host/a-1", "host/a-2"}) {
			t.Errorf("got %v, %v", got, err)
		}
	})
	t.Run("model", func(t *testing.T) {
		api.model = bytes.Repeat([]byte("weights "), flowChunk/4)
		model, err := c.Model(ctx, "", "c01", 400)
		if err != nil || !bytes.Equal(model, api.model) || api.asked.cell != "c01" || api.asked.round != 400 {
			t.Errorf("asked for %q, %d; got %d bytes, %v", api.asked.cell, api.asked.round, len(model), err)
		}
		for _, round := range []int{0, control.LastRound, control.NewestRound} {
			if _, err := c.Model(ctx, "", "", round); err != nil || api.asked.cell != "" || api.asked.round != round {
				t.Errorf("the only cell was asked for as %q after %d, want %d (%v)", api.asked.cell, api.asked.round, round, err)
			}
		}
	})
	t.Run("pictures", func(t *testing.T) {
		picture := func(cell string, round, number int) results.Picture {
			return results.Picture{
				Cell: cell, Label: "é <b>", Round: round, Number: number, Title: "t", Caption: "c", Text: "x",
				PNG: fmt.Appendf(nil, "%s %d %d", cell, round, number),
			}
		}
		api.pictures = []results.Picture{picture("c01", 5, 0), picture("c01", 5, 1), picture("c01", 9, 0), picture("c02", 9, 0)}
		for shown, want := range map[results.Shown][]results.Picture{
			{}: api.pictures, {Cell: "c01"}: api.pictures[:3], {Cell: "c01", Round: 5}: api.pictures[:2], {Round: 9}: api.pictures[2:], {Cell: "c03"}: {},
		} {
			got, err := c.Pictures(ctx, "grid", shown)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%+v: got %+v, %v; want %+v", shown, got, err, want)
			}
		}
		for path, want := range map[string]int{
			"/pictures?round=0": 400, "/pictures?round=x": 400, "/cells/c01/pictures/5/2": 404, "/cells/c01/pictures/5/-1": 400, "/cells/c01/pictures/0/0": 400,
		} {
			if a := c.ask(t, "GET", "/api/v1/runs/grid"+path, nil, nil); a.StatusCode != want {
				t.Errorf("%s: %s, want %d", path, a.Status, want)
			}
		}
		a := c.ask(t, "GET", "/api/v1/runs/grid/cells/c01/pictures/5/1", nil, nil)
		if a.body != "c01 5 1" || a.Header.Get("Content-Type") != "image/png" {
			t.Errorf("%q as %s", a.body, a.Header.Get("Content-Type"))
		}
	})
	t.Run("a page has the pictures", func(t *testing.T) {
		api.results = results.Results{Run: "grid", Cells: []results.Cell{{Cell: "c01"}}}
		for format, want := range map[string]bool{"html": true, "table": false} {
			api.asked.shown = results.Shown{Cell: "nobody asked"}
			a := c.ask(t, "GET", "/api/v1/runs/grid/results?format="+format, nil, nil)
			if a.StatusCode != 200 || (api.asked.shown == results.Shown{}) != want || strings.Contains(a.body, "data:image/png") != want {
				t.Errorf("%s: %s, asked for %+v", format, a.Status, api.asked.shown)
			}
		}
	})
	t.Run("figures", func(t *testing.T) {
		var report reports.Report
		must.Do(t, json.Unmarshal([]byte(`{"audit": {"deanonymization": {"attacks": [{"attack": "mlp", "users": 2, "ap": 0.5, "factor": 5, "share": 0.1, "chance": 0.1, "curve": [1, 0.5]}]}}}`), &report))
		api.results = results.Results{Run: "grid", Cells: []results.Cell{
			{Cell: "c01", Label: "é <b>", Status: results.Done, Report: &report, Axes: experiment.Axes{{Path: "seed", Value: []byte("1")}}},
			{Cell: "c02", Status: results.Done, Report: &report, Axes: experiment.Axes{{Path: "seed", Value: []byte("2")}}},
		}}
		var list figureList
		must.Do(t, json.Unmarshal([]byte(c.ask(t, "GET", "/api/v1/runs/grid/figures", nil, nil).body), &list))
		if len(list.Figures) != 3 || list.Figures[0].Cell != "" || list.Figures[1].Cell != "c01" || list.Figures[1].Label != "é <b>" || list.Figures[2].Number != 2 {
			t.Errorf("figures %+v", list.Figures)
		}
		for _, f := range list.Figures {
			a := c.ask(t, "GET", fmt.Sprintf("/api/v1/runs/grid/figures/%d", f.Number), nil, nil)
			if a.Header.Get("Content-Type") != "image/svg+xml" || !strings.HasPrefix(a.body, "<svg xmlns=") || !strings.Contains(a.body, `aria-label="`+f.Title) || f.Title == "" || f.Caption == "" {
				t.Errorf("%+v: as %s\n%s", f, a.Header.Get("Content-Type"), a.body)
			}
		}
		for format, begins := range map[string]string{"svg": `<svg xmlns="http://www.w3.org/2000/svg" width="504`, "pdf": "%PDF-1.", "png": "\x89PNG", "csv": "series,x,"} {
			a := c.ask(t, "GET", "/api/v1/runs/grid/figures/0?width=two-columns&format="+format, nil, nil)
			if a.Header.Get("Content-Type") != figureTypes[format] || !strings.HasPrefix(a.body, begins) {
				t.Errorf("%s: as %s\n%.80s", format, a.Header.Get("Content-Type"), a.body)
			}
		}
		for number, want := range map[string]int{"3": 404, "-1": 400, "x": 400, "0?format=gif": 400, "0?width=3": 400} {
			if a := c.ask(t, "GET", "/api/v1/runs/grid/figures/"+number, nil, nil); a.StatusCode != want {
				t.Errorf("%s: %s, want %d", number, a.Status, want)
			}
		}
		for _, path := range []string{"figures/3", "cells/c01/pictures/1/3"} {
			if a := c.ask(t, "GET", "/api/v1/runs/latest/"+path, nil, nil); a.StatusCode != 404 || !strings.Contains(a.body, "run latest") {
				t.Errorf("%s: %s, which does not name the run: %s", path, a.Status, a.body)
			}
		}
	})
	t.Run("prepared", func(t *testing.T) {
		api.model = []byte("weights")
		for _, cell := range []string{"c02", ""} {
			model, err := c.Prepared(ctx, "grid", cell, "classifier")
			if err != nil || !bytes.Equal(model, api.model) || api.asked.run != "grid" || api.asked.cell != cell || api.asked.prepared != "classifier" {
				t.Errorf("asked for %q of %q; got %d bytes, %v", api.asked.prepared, api.asked.cell, len(model), err)
			}
		}
	})
	t.Run("rounds", func(t *testing.T) {
		api.rounds = results.Rounds{Run: "grid", Experiment: "grid", Cells: []results.CellRounds{{
			Cell: "c01", Label: "iid", Axes: experiment.Axes{}, Rounds: []results.Round{{
				Row:          checkpoints.Row{Round: 1, Clients: 4, Norms: checkpoints.Norms{Min: 0.5, Largest: 2}, Spending: checkpoints.Spending{Clip: 1}},
				ClippedNorms: results.ClippedNorms{Min: 0.5, Largest: 1},
			}},
		}}}
		got, err := c.Rounds(ctx, "grid")
		if err != nil || !reflect.DeepEqual(*got, api.rounds) || api.asked.run != "grid" {
			t.Errorf("asked for %q, got %+v, %v", api.asked.run, got, err)
		}
	})
	t.Run("canaries", func(t *testing.T) {
		api.lives = results.CanaryLives{
			Run: "grid", Cell: "c01", Label: "iid", Unit: "round",
			Canaries: []results.LivingCanary{{Role: audits.Inserted, Canary: canary(t, "exposure", "3.5")}},
			Rounds:   []results.CanaryRound{{Round: 3, Outcomes: []encoding.Object{{{Name: "exposure", Value: json.RawMessage("3.5")}}}}},
		}
		got, err := c.Canaries(ctx, "grid", "c01", 77)
		if err != nil || api.asked.cell != "c01" || api.asked.points != 77 {
			t.Fatalf("asked for %q, %d; got %+v, %v", api.asked.cell, api.asked.points, got, err)
		}
		if exposure, _ := got.Canaries[0].Canary.Outcomes.Get("exposure"); string(exposure) != "3.5" || !reflect.DeepEqual(got.Rounds, api.lives.Rounds) {
			t.Errorf("got %+v", got)
		}
		if a := c.ask(t, "GET", "/api/v1/runs/grid/cells/c01/canaries?points=1", nil, nil); a.StatusCode != 400 {
			t.Errorf("one point: %s", a.Status)
		}
	})
	t.Run("references of a canary", func(t *testing.T) {
		api.surroundings = control.Surroundings{Round: 9, Canary: 4, References: 300, Estimate: skewnormal.Estimate{LogPerplexity: 12.5, Exposure: 2, Fit: skewnormal.Fit{Histogram: skewnormal.Histogram{From: 10, Width: 1, Counts: []int{2, 1}}}}}
		got, err := c.Surroundings(ctx, "grid", "c01", 4, control.LastRound)
		if err != nil || !reflect.DeepEqual(*got, api.surroundings) || api.asked.canary != 4 || api.asked.round != control.LastRound {
			t.Errorf("asked for canary %d after %d, got %+v, %v", api.asked.canary, api.asked.round, got, err)
		}
		if _, err := c.Surroundings(ctx, "grid", "c01", 4, 6); err != nil || api.asked.round != 6 {
			t.Errorf("asked for round %d, %v", api.asked.round, err)
		}
		for _, path := range []string{"-1/references", "x/references", "4/references?round=0"} {
			if a := c.ask(t, "GET", "/api/v1/runs/grid/cells/c01/canaries/"+path, nil, nil); a.StatusCode != 400 {
				t.Errorf("%s: %s", path, a.Status)
			}
		}
	})
	t.Run("curve", func(t *testing.T) {
		api.curve = results.Curve{
			Run: "grid", Cell: "c01", Label: "iid", Axes: experiment.Axes{}, Unit: "round", Steps: 9,
			Rounds:  []results.Round{{Row: checkpoints.Row{Round: 1, Clients: 4}}},
			Audited: []reports.Point{{Round: 3, Utility: json.RawMessage(`{"perplexity":9}`), Metrics: encoding.Object{{Name: "extractable", Value: json.RawMessage("2")}}}},
			Clock:   []results.Tick{{Round: 3, Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}},
		}
		got, err := c.Curve(ctx, "grid", "c01", 77)
		if err != nil || !reflect.DeepEqual(*got, api.curve) || api.asked.cell != "c01" || api.asked.points != 77 {
			t.Errorf("asked for %q, %d; got %+v, %v", api.asked.cell, api.asked.points, got, err)
		}
		if a := c.ask(t, "GET", "/api/v1/runs/grid/cells/c01/curve", nil, nil); a.StatusCode != 200 || api.asked.points != curvePoints {
			t.Errorf("asked for %d points, got %s", api.asked.points, a.Status)
		}
		for _, points := range []string{"1", "-3", "x"} {
			if a := c.ask(t, "GET", "/api/v1/runs/grid/cells/c01/curve?points="+points, nil, nil); a.StatusCode != 400 {
				t.Errorf("%s points: %s %s", points, a.Status, a.body)
			}
		}
	})
	t.Run("history", func(t *testing.T) {
		api.history = control.History{Run: "grid", Dropped: 3, Events: []control.Event{{
			Entry: runs.Entry{Kind: runs.PauseEntry, Time: time.Unix(1_700_000_000, 0).UTC(), By: "ada"}, Text: "paused by ada",
		}}}
		got, err := c.History(ctx, "grid-0")
		if err != nil || !reflect.DeepEqual(*got, api.history) || api.asked.run != "grid-0" {
			t.Errorf("asked for %q, got %+v, %v", api.asked.run, got, err)
		}
	})
	t.Run("data", func(t *testing.T) {
		api.data = bytes.Repeat([]byte("rows "), flowChunk)
		var got bytes.Buffer
		err := c.Data(ctx, "grid", "c01", dataexport.References, dataexport.Parquet, &got)
		if err != nil || !bytes.Equal(got.Bytes(), api.data) || api.asked.cell != "c01" || api.asked.table != dataexport.References || api.asked.format != dataexport.Parquet {
			t.Errorf("asked for %q, %q as %q; got %d bytes, %v", api.asked.cell, api.asked.table, api.asked.format, got.Len(), err)
		}
		api.err = errors.New("the store went away")
		defer func() { api.err = nil }()
		if err := c.Data(ctx, "grid", "c01", dataexport.Parts, dataexport.JSONLines, io.Discard); err == nil || !strings.Contains(err.Error(), "truncated") {
			t.Errorf("rows that end too early: %v", err)
		}
	})
	t.Run("nodes", func(t *testing.T) {
		api.nodes = []control.Node{{
			Key: key, Kind: "datasets/encode", Version: 1, Label: "parts", Cells: []string{"c01"}, Params: json.RawMessage(`{"seed":1}`),
			Inputs: []control.NodeInput{{Name: "corpus", Key: key}}, Committed: true,
			Blobs: []control.NodeBlob{{Name: "vocabulary", Bytes: 7, SHA256: key.Digest, Stored: true}},
		}}
		for _, cell := range []string{"c01", ""} {
			got, err := c.Nodes(ctx, "grid", control.NodeQuery{Cell: cell})
			if err != nil || !reflect.DeepEqual(got, api.nodes) || api.asked.cell != cell || api.asked.nodes.Changes != nil {
				t.Errorf("asked for %+v, got %+v, %v", api.asked.nodes, got, err)
			}
		}
		for _, changes := range []*control.NodeChanges{{After: 7}, {Keys: []string{"ab", "cd"}}, {}} {
			want := control.NodeQuery{Cell: "c01", Changes: changes}
			if _, err := c.Nodes(ctx, "grid", want); err != nil || !reflect.DeepEqual(api.asked.nodes, want) {
				t.Errorf("asked for %+v, want %+v, %v", api.asked.nodes, want, err)
			}
		}
	})
	t.Run("lineage", func(t *testing.T) {
		api.lineage = control.Lineage{
			Node:    control.Node{Key: key, Kind: "datasets/encode", Version: 1, Label: "parts", Cells: []string{"c01", "c02"}, Params: json.RawMessage(`{}`), Inputs: []control.NodeInput{}, Blobs: []control.NodeBlob{}},
			Readers: []control.Reader{{Key: key, Kind: "training/clients", Label: "training, 9 steps", Input: "shards", Training: true, Cells: []string{"c02"}, CellsTotal: 1}}, ReadersTotal: 3,
		}
		got, err := c.Lineage(ctx, "grid", "c01", "abcd")
		if err != nil || !reflect.DeepEqual(got, &api.lineage) || api.asked.cell != "c01" || api.asked.node != "abcd" {
			t.Errorf("asked for %q of %q, got %+v, %v", api.asked.node, api.asked.cell, got, err)
		}
	})
	t.Run("workers", func(t *testing.T) {
		worker := status.Worker{ID: "w1", Host: "h", Slots: 2, Running: 1, Takeovers: 1, ClassSlots: map[string]int{"gpu": 1}, Devices: []queue.Device{{ID: "GPU-a", Name: "NVIDIA H100", MemoryBytes: 1 << 36, Driver: "535.1"}}}
		api.fleet = status.Fleet{
			Workers: []status.FleetWorker{{Worker: worker, Classes: []tasks.Class{"compute"}, Tasks: []status.FleetTask{{Run: "grid", Attempt: status.Attempt{Key: key, Label: "round 4", Kind: "k", Attempt: 1, Worker: "w1"}}}}},
			Queues:  []status.Queue{{Class: "compute", Slots: 2, Queued: 1}}, Waits: []status.Wait{{Reason: status.WaitCoordinator, Detail: "nobody leads"}},
		}
		if got, err := c.Workers(ctx); err != nil || !reflect.DeepEqual(got, &api.fleet) {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("experiment", func(t *testing.T) {
		file := "name: grid\ndata: {source: a.jsonl}\ntraining: {cohort: 5, epochs: 1}\ngrid: {axes: {data.partition: [iid, by-user]}}\n"
		parsed := must.Get(experiment.Parse("grid.yaml", []byte(file), experiment.Options{}))(t)
		stored := must.Get(json.Marshal(parsed))(t)
		spec := must.Get(experiment.ReadSpec(stored))(t)
		api.spec = *spec
		got, err := c.Experiment(ctx, "grid")
		if err != nil || !reflect.DeepEqual(*got, api.spec) || api.asked.run != "grid" {
			t.Errorf("asked for %q, got %+v, %v", api.asked.run, got, err)
		}
	})
	t.Run("spending", func(t *testing.T) {
		api.spending = control.Spending{
			Cell: "c01", Delta: 1e-7, Sampling: privacy.FixedSize, Neighbouring: privacy.ReplaceOne, Conversion: privacy.Classic, Unit: "balanced user",
			Budget: &privacy.Budget{Epsilon: 8, Delta: 1e-7}, Grounds: privacy.Grounds{Assumptions: []string{"a"}, NotCovered: []string{"b"}, HoldsAgainst: "c", Validity: "d"},
			Rounds: []control.SpentRound{{Round: 1, Epsilon: 0.5, EpsilonProved: 2}, {Round: 9, Epsilon: 1.5, EpsilonProved: 7}},
		}
		got, err := c.Spending(ctx, "", "c01")
		if err != nil || !reflect.DeepEqual(got, api.spending) || api.asked.cell != "c01" {
			t.Errorf("asked for %q, got %+v, %v", api.asked.cell, got, err)
		}
		const target = "/api/v1/runs/latest/cells/c01/privacy?format="
		if a := c.ask(t, "GET", target+"svg", nil, nil); a.StatusCode != 200 || a.Header.Get("Content-Type") != "image/svg+xml" || !strings.Contains(a.body, ">rounds</text>") {
			t.Errorf("picture: %s, %s\n%s", a.Status, a.Header.Get("Content-Type"), a.body)
		}
		if a := c.ask(t, "GET", target+"gif", nil, nil); a.StatusCode != 400 {
			t.Errorf("another format: %s", a.Status)
		}
		api.spending.Rounds = nil
		if a := c.ask(t, "GET", target+"svg", nil, nil); a.StatusCode != 400 || !strings.Contains(a.body, "at least two different numbers of rounds") {
			t.Errorf("a picture of nothing: %s %s", a.Status, a.body)
		}
	})
	t.Run("logs", func(t *testing.T) {
		api.logs = []control.AttemptLog{{Node: key, Label: "round 3", Attempt: "a", Text: "line\n<script>"}}
		logs, err := c.Logs(ctx, "", "01ab")
		if err != nil || !reflect.DeepEqual(logs, api.logs) || api.asked.node != "01ab" {
			t.Errorf("asked for %q, got %+v, %v", api.asked.node, logs, err)
		}
	})
	t.Run("names are escaped", func(t *testing.T) {
		if _, err := c.Model(ctx, "a/b?c", "../x", 0); err != nil || api.asked.run != "a/b?c" || api.asked.cell != "../x" {
			t.Errorf("asked for %q, %q, %v", api.asked.run, api.asked.cell, err)
		}
	})
}

func sampleResults() results.Results {
	const measured = `{
		"utility": {"recall_at_1": 0.25, "perplexity": 60.5, "tokens": 99},
		"privacy": {"epsilon": 18.8, "epsilon_proved": null, "infinite": true, "delta": 1e-7},
		"audit": {
			"random_sampling": {"memorized": 5, "of": 9, "references": 2000, "lowest": {"user_probability": 0.0002, "example_probability": 0.1}},
			"audit_of_another_version": {"found": "more"},
			"canaries": [{"words": ["a", "b"], "user_probability": 0.5, "example_probability": 1, "users": 2, "holders": 1, "insertions": 7, "rank": 1}],
			"never_inserted": [], "controls": []},
		"curve": [{"round": 3, "utility": {"recall_at_1": 0.25}, "random_sampling_memorized": 5}]}`
	report := new(reports.Report)
	if err := json.Unmarshal([]byte(measured), report); err != nil {
		panic(err)
	}
	return results.Results{
		Run: "grid-01234567", Experiment: "grid",
		Cells: []results.Cell{
			{
				Cell: "c01", Label: "iid, FedAvg", Status: results.Done, Setting: "FedAvg", Partition: "iid",
				Axes:   experiment.Axes{{Path: "data.partition", Value: []byte(`"iid"`)}},
				Report: report,
			},
			{Cell: "c02", Label: "by-user, SGD", Status: results.Failed, Errors: []string{"round 3: diverged"}, Axes: experiment.Axes{}},
		},
	}
}

func TestResultsRoundTrip(t *testing.T) {
	t.Parallel()
	api := newFake()
	api.results = sampleResults()
	c, _ := start(t, api, Options{})
	got := must.Get(c.Results(t.Context(), ""))(t)
	for _, format := range results.FormatNames() {
		var want, have bytes.Buffer
		must.Do(t, errors.Join(api.results.Write(&want, format), got.Write(&have, format)))
		if !bytes.Equal(want.Bytes(), have.Bytes()) {
			t.Errorf("as %s they differ:\n%s\nnot\n%s", format, have.String(), want.String())
		}
	}
}

func TestResultsAreServedInEveryFormat(t *testing.T) {
	t.Parallel()
	api := newFake()
	api.results = sampleResults()
	c, _ := start(t, api, Options{})
	answers := map[string]struct{ contentType, file string }{
		"table":   {"text/plain; charset=utf-8", ""},
		"json":    {"application/json", ""},
		"csv":     {"text/csv; charset=utf-8", "grid-01234567.csv"},
		"latex":   {"text/x-latex; charset=utf-8", "grid-01234567.tex"},
		"parquet": {"application/vnd.apache.parquet", "grid-01234567.parquet"},
		"html":    {"text/html; charset=utf-8", "grid-01234567.html"},
	}
	for _, format := range results.FormatNames() {
		expected, known := answers[format]
		if !known {
			t.Errorf("%s: say here how a browser must take it", format)
		}
		a := c.ask(t, "GET", "/api/v1/runs/latest/results?format="+format, nil, nil)
		f := must.Get(results.FormatNamed(format))(t)
		found := must.Get(control.ResultsFor(t.Context(), api, "latest", f))(t)
		var want bytes.Buffer
		must.Do(t, found.Write(&want, format))
		if a.StatusCode != 200 || a.body != want.String() || a.Header.Get("Content-Type") != expected.contentType {
			t.Errorf("%s: %s, %s, %d bytes, want %d", format, a.Status, a.Header.Get("Content-Type"), len(a.body), want.Len())
		}
		disposition := ""
		if expected.file != "" {
			disposition = "attachment; filename=" + expected.file
		}
		if format == "html" {
			disposition = "inline; filename=" + expected.file
		}
		if got := a.Header.Get("Content-Disposition"); got != disposition {
			t.Errorf("%s: Content-Disposition is %q, want %q", format, got, disposition)
		}
	}
	for _, format := range []string{"csv", "parquet"} {
		a := c.ask(t, "GET", "/api/v1/runs/latest/results?rows=canaries&format="+format, nil, nil)
		var want bytes.Buffer
		must.Do(t, api.results.WriteRows(&want, format, results.Canaries))
		if a.StatusCode != 200 || a.body != want.String() {
			t.Errorf("canaries as %s: %s, %d bytes, want %d", format, a.Status, len(a.body), want.Len())
		}
	}
	for query, want := range map[string]string{"format=html&rows=canaries": "format html has no rows of canaries; expected one of table, csv, parquet", "format=html&rows=rounds": "format html has no rows of rounds; expected one of table, json, csv, parquet", "rows=users": "expected one of cells, canaries, attacks, attacked-users, membership, means, differences, numbers, rounds"} {
		if a := c.ask(t, "GET", "/api/v1/runs/latest/results?"+query, nil, nil); a.StatusCode != 400 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %s %s", query, a.Status, a.body)
		}
	}
	if a := c.ask(t, "GET", "/api/v1/runs/latest/results?format=gif", nil, nil); a.StatusCode != 400 || !strings.Contains(a.body, "expected one of table, json") {
		t.Errorf("an unknown format: %s %s", a.Status, a.body)
	}
}

func TestThePageReceivesResultsTable(t *testing.T) {
	t.Parallel()
	api := newFake()
	api.results = sampleResults()
	c, _ := start(t, api, Options{})
	var got runTable
	a := c.ask(t, "GET", "/api/v1/runs/latest/table", nil, nil)
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	want := must.Get(api.results.Table())(t)
	one := c.ask(t, "GET", "/api/v1/runs/latest/table?cell="+got.Rows[1].Cell, nil, nil)
	if none := c.ask(t, "GET", "/api/v1/runs/latest/table?cell=c99", nil, nil); none.StatusCode != 404 || !strings.Contains(one.body, got.Rows[1].Texts[0]) || strings.Contains(one.body, got.Rows[0].Texts[0]) {
		t.Errorf("one cell alone: %s, another: %s", one.body, none.Status)
	}
	if !reflect.DeepEqual(got.Table, want) || len(got.Rows) != 2 || got.Rows[0].Texts[1] != "5/9" || len(got.Formats) != len(results.Formats()) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Every error that has a name has it on the other side too, with its message.
func TestErrorsKeepTheirIdentity(t *testing.T) {
	t.Parallel()
	for _, k := range errorKinds {
		t.Run(k.kind, func(t *testing.T) {
			t.Parallel()
			api := newFake()
			api.err = fmt.Errorf("run %q: %w; do this", "x", k.err)
			c, _ := start(t, api, Options{})
			_, err := c.Status(t.Context(), "x")
			if !errors.Is(err, k.err) || err.Error() != api.err.Error() {
				t.Errorf("got %v, want %v", err, api.err)
			}
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Status != k.status || e.Kind != k.kind {
				t.Errorf("got %+v", e)
			}
			for _, other := range errorKinds {
				if other.kind != k.kind && errors.Is(err, other.err) {
					t.Errorf("it is %v as well", other.err)
				}
			}
		})
	}
}

func TestEveryMethodReportsErrors(t *testing.T) {
	t.Parallel()
	api := newFake()
	api.err = fmt.Errorf("run x: %w", runs.ErrState)
	c, _ := start(t, api, Options{})
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"HasSource":  func() error { _, err := c.HasSource(ctx, key.Digest); return err },
		"PutSource":  func() error { _, err := c.PutSource(ctx, strings.NewReader("x")); return err },
		"Submit":     func() error { _, err := c.Submit(ctx, runs.Spec{}, false); return err },
		"SubmitFile": func() error { _, err := c.SubmitFile(ctx, control.File{}, false); return err },
		"List":       func() error { _, err := c.List(ctx); return err },
		"Status":     func() error { _, err := c.Status(ctx, ""); return err },
		"Watch":      func() error { _, err := c.Watch(ctx, ""); return err },
		"Steer":      func() error { _, err := c.Steer(ctx, "", runs.Entry{Kind: runs.PauseEntry}); return err },
		"Remove":     func() error { _, err := c.Remove(ctx, ""); return err },
		"Collect":    func() error { _, err := c.Collect(ctx, control.CollectOptions{}); return err },
		"Drain":      func() error { _, err := c.Drain(ctx, "w"); return err },
		"Experiment": func() error { _, err := c.Experiment(ctx, ""); return err },
		"Results":    func() error { _, err := c.Results(ctx, ""); return err },
		"Curve":      func() error { _, err := c.Curve(ctx, "", "c01", 9); return err },
		"Canaries":   func() error { _, err := c.Canaries(ctx, "", "c01", 9); return err },
		"Scores":     func() error { _, err := c.Surroundings(ctx, "", "c01", 0, 9); return err },
		"History":    func() error { _, err := c.History(ctx, ""); return err },
		"Rounds":     func() error { _, err := c.Rounds(ctx, ""); return err },
		"Model":      func() error { _, err := c.Model(ctx, "", "", 0); return err },
		"Pictures":   func() error { _, err := c.Pictures(ctx, "", results.Shown{}); return err },
		"Prepared":   func() error { _, err := c.Prepared(ctx, "", "", "classifier"); return err },
		"Data":       func() error { return c.Data(ctx, "", "", dataexport.Parts, dataexport.JSONLines, io.Discard) },
		"Nodes":      func() error { _, err := c.Nodes(ctx, "", control.NodeQuery{}); return err },
		"Lineage":    func() error { _, err := c.Lineage(ctx, "", "c01", "ab"); return err },
		"Workers":    func() error { _, err := c.Workers(ctx); return err },
		"Spending":   func() error { _, err := c.Spending(ctx, "", "c01"); return err },
		"Logs":       func() error { _, err := c.Logs(ctx, "", ""); return err },
	} {
		if err := call(); !errors.Is(err, runs.ErrState) {
			t.Errorf("%s: %v, want %v", name, err, runs.ErrState)
		}
	}
}

func TestUnknownServerErrorsAreInternal(t *testing.T) {
	t.Parallel()
	api := newFake()
	api.err = errors.New("something odd")
	c, _ := start(t, api, Options{})
	_, err := c.Status(t.Context(), "")
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Status != 500 || e.Kind != "internal" || e.Message != "something odd" || e.Unwrap() != nil {
		t.Errorf("got %+v", err)
	}
}

func TestClientReportsBadAddresses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "ftp://x", "http://", "http://user:secret@host", "http://h?q", "http://[::1"} {
		if _, err := NewClient(address, ""); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
	c := client(t, "127.0.0.1:1", "") // nobody listens on port 1
	if _, err := c.Status(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:1") {
		t.Errorf("got %v, want the address", err)
	}
}

func TestClientRejectsRedirects(t *testing.T) {
	t.Parallel()
	c, _ := start(t, newFake(), Options{OperatorToken: operatorToken})
	show := func(c *Client, page string) error {
		request, err := c.request(t.Context(), "GET", c.base.JoinPath(page), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = showRun.send(c, request)
		return err
	}
	if show(c, "login") == nil {
		t.Error("an HTML page was taken for an answer")
	}
	if err := show(client(t, c.base.String(), ""), "/"); err == nil || !strings.Contains(err.Error(), "303") {
		t.Errorf("got %v, want the redirect as an error", err)
	}
}

// canary is one of which an audit has said one thing.
func canary(t *testing.T, outcome, value string) (c reports.Canary) {
	t.Helper()
	must.Do(t, c.Outcomes.Set(outcome, json.RawMessage(value)))
	return c
}
