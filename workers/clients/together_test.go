//go:build unix

package clients

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/contracts"
	"coalmine/internal/must"
	"coalmine/tasks"
	"coalmine/tasks/clientprograms"
	"coalmine/workers/clients/clientstest"
)

// manyBegun is work on the first parameters of a program for two users.
func manyBegun(t *testing.T, c clientprograms.Client) clientprograms.ManyWork {
	t.Helper()
	w := begun(t, c)
	return clientprograms.ManyWork{Model: w.Model, Round: 1, Users: []clientprograms.User{{Examples: sentences, Seed: 3}, {Examples: sentences[:1], Seed: 4}}}
}

// Two users together learn the same as each alone, from files that are written over and
// in several files.
func TestUsersAreTrainedTogether(t *testing.T) {
	t.Parallel()
	c := borrowed(t, pooled(t, Options{}), "").(*program)
	defer c.GiveBack()
	w := manyBegun(t, c)
	for turn := range 3 {
		slices.Reverse(w.Users)
		calls := 0
		if err := c.FitMany(t.Context(), w, func(i int, f *clientprograms.Fitted, params []float32) error {
			calls++
			alone := make([]float32, len(params))
			fitted, err := c.Fit(t.Context(), clientprograms.Work{Model: w.Model, Examples: w.Users[i].Examples, Round: 1, Seed: w.Users[i].Seed}, alone)
			if err != nil || !slices.Equal(alone, params) || fitted.Targets != f.Targets || fitted.Loss != f.Loss || f.Examples != int64(len(w.Users[i].Examples)) {
				t.Errorf("turn %d: user %d learns %v (%+v) together and %v (%+v), %v alone", turn, i, params, f, alone, fitted, err)
			}
			return nil
		}); err != nil || calls != 2 {
			t.Fatalf("%d users, %v", calls, err)
		}
	}
}

// Of many users each file has some, and the last the rest.
func TestUsersOfRequestFillSeveralFiles(t *testing.T) {
	t.Parallel()
	c := borrowed(t, pooled(t, Options{}), "").(*program)
	defer c.GiveBack()
	w := manyBegun(t, c)
	w.Users = append(w.Users, w.Users[0])
	path, letGo, err := c.files.hold(t.Context(), w.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer letGo()
	about := c.many(path, &w)
	about.PerFile, about.Files = 2, []string{filepath.Join(c.directory, "a"), filepath.Join(c.directory, "b")}
	var got [][]float32
	err = c.ask(t.Context(), fitMany, fitMany, about, func(result json.RawMessage) error {
		users, err := decodeUsers(result, w.Users, FilesOfMany)
		if err != nil {
			return err
		}
		_, err = c.readMany(&about, users, func(_ int, _ *clientprograms.Fitted, params []float32) error {
			got = append(got, slices.Clone(params))
			return nil
		})
		return err
	})
	if err != nil || len(got) != 3 || slices.Equal(got[0], got[1]) || !slices.Equal(got[0], got[2]) {
		t.Errorf("users learn %v, %v; expected three, of which the first and the last are equal", got, err)
	}
}

func TestFaultsOfSeveralUsersAreReported(t *testing.T) {
	t.Parallel()
	for fault, c := range map[string]struct {
		want string
		rule contracts.Rule
	}{
		clientstest.NaN:        {`tensor "weights" has values that are not finite`, FiniteNumbers},
		clientstest.Device:     {"many-0.safetensors is not a regular file", FilesAsAsked},
		clientstest.Stale:      {`has the stamp "1"; expected "2"`, FilesOfMany},
		clientstest.FewerUsers: {", 1 users; expected a result for each of 2", FilesOfMany},
		clientstest.NoExamples: {"user 1 of 2: examples is 0", WhatFitSays},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			client := borrowed(t, pooled(t, Options{}), fault)
			defer client.GiveBack()
			w, err := manyBegun(t, client), error(nil)
			for range 2 {
				if err == nil {
					err = client.FitMany(t.Context(), w, func(int, *clientprograms.Fitted, []float32) error { return nil })
				}
			}
			if !tasks.IsPermanent(err) || !strings.Contains(err.Error(), c.want) || contracts.RuleOf(err) != c.rule {
				t.Errorf("got %v, want %q of rule %d for good", err, c.want, c.rule.Number)
			}
		})
	}
}

// A sum that is longer than its clipped terms can be is refused in every round.
func TestUnclippedSumIsRejected(t *testing.T) {
	t.Parallel()
	client := borrowed(t, pooled(t, Options{}), clientstest.Unclipped)
	defer client.GiveBack()
	w := manyBegun(t, client)
	_, err := client.Sum(t.Context(), w, 1e-6, []float64{1, 1}, make([]float32, len(words)+1))
	if !tasks.IsPermanent(err) || contracts.RuleOf(err) != SumOfMany || !strings.Contains(err.Error(), "expected at most 2e-06") {
		t.Errorf("got %v, want that the sum is too long", err)
	}
}

// A program that needs more memory for its users than it may have is refused before it trains.
func TestUsersBeyondMemoryAreRejected(t *testing.T) {
	t.Parallel()
	c := &program{pool: pooled(t, Options{}), description: &clientprograms.Description{Together: &clientprograms.Together{Users: 3, Memory: 1 << 20}}}
	c.setting.Command = "mine"
	for limit, fits := range map[int64]bool{0: true, 3 << 20: true, 2 << 20: false} {
		c.setting.Terms.Memory = limit
		if err := c.fits(); (err == nil) != fits || err != nil && (!tasks.IsPermanent(err) || !strings.Contains(err.Error(), "may use 2 MiB of memory; lower its number of users")) {
			t.Errorf("%d bytes: %v", limit, err)
		}
	}
}

// The tree of pairs has each beginning once.
func TestTreeHasEachPrefixOnce(t *testing.T) {
	t.Parallel()
	tr := &tree{nodes: map[edge]int{}}
	first := tr.follow(-1, []int32{4, 5})
	if second := tr.follow(first[0], []int32{5, 6}); !slices.Equal(second, []int{1, 2}) || !slices.Equal(tr.Parents, []int{-1, 0, 1}) || !slices.Equal(tr.Tokens, []int32{4, 5, 6}) {
		t.Errorf("%+v, %v", tr, second)
	}
}

// A program that is killed in the middle of a sum is no reason to fail, and another one makes the same sum.
func TestSumIsEqualAfterKill(t *testing.T) {
	t.Parallel()
	died := filepath.Join(t.TempDir(), "died")
	p := pooled(t, Options{Write: []string{filepath.Dir(died)}})
	summed := func(fault, died string) ([]float32, error) {
		program := clientstest.Program("")
		program.Config, _ = json.Marshal(map[string]any{"fault": fault, "rate": 0.1, "died": died})
		c, err := p.Borrow(t.Context(), clientprograms.Setting{Program: program, Words: words})
		if err != nil {
			t.Fatal(err)
		}
		defer c.GiveBack()
		sum := make([]float32, len(words)+1)
		_, err = c.Sum(t.Context(), manyBegun(t, c), 0.01, []float64{1, 1}, sum)
		return sum, err
	}
	want := must.Get(summed("", ""))(t)
	if _, err := summed(clientstest.DiesOfMany, died); err == nil || tasks.IsPermanent(err) {
		t.Fatalf("it was killed: %v, want another try", err)
	}
	if got, err := summed(clientstest.DiesOfMany, died); err != nil || !slices.Equal(got, want) {
		t.Errorf("the sum after a kill is %v, %v; expected %v", got, err, want)
	}
}

// A divergence names the user, the step and the number; an invalid description is an ordinary error.
func TestDivergenceNamesUserAndStep(t *testing.T) {
	t.Parallel()
	c := borrowed(t, pooled(t, Options{}), clientstest.Diverges)
	defer c.GiveBack()
	_, err := c.Sum(t.Context(), manyBegun(t, c), 0.01, nil, make([]float32, len(words)+1))
	d, ok := errors.AsType[*clientprograms.DivergedError](err)
	if !ok || !tasks.IsPermanent(err) || d.User != 1 || d.Step != 3 || d.Name != "loss" || !math.IsNaN(d.Value) {
		t.Errorf("got %v", err)
	}
	for _, described := range []string{`null`, `7`, `{"user":2,"step":1,"name":"loss","value":"nan"}`, `{"user":0,"step":1,"name":"mood","value":"1"}`, `{"user":0,"step":-1,"name":"loss","value":"1"}`, `{"name":"loss"}`} {
		refused := &contracts.RefusedError{Method: sum, Message: "diverged", Diverged: json.RawMessage(described)}
		if err := decodeDivergence(refused, 2); err != nil {
			t.Errorf("%s: %v", described, err)
		}
	}
}

// The directory of one program's files is closed to other users.
func TestProgramFilesArePrivate(t *testing.T) {
	t.Parallel()
	c := borrowed(t, pooled(t, Options{}), "").(*program)
	defer c.GiveBack()
	for _, path := range []string{c.directory, c.files.path} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}
